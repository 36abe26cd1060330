#include "mesh/communicator.h"

#include <cstring>
#include <new>

namespace maxtext {
namespace {

constexpr std::align_val_t kAlignment{64};

bool overlap(const std::byte* a, std::int64_t a_bytes, const std::byte* b, std::int64_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + static_cast<std::uintptr_t>(b_bytes) &&
         second < first + static_cast<std::uintptr_t>(a_bytes);
}

/// Whether `buffer` may overlap itself in the way it does.
bool overlap_allowed(const CollectiveRequest& request, const CollectiveBuffer& buffer, int group_size, int rank) {
  const std::int64_t bytes = buffer.count * element_size(request.element);
  switch (request.kind) {
    case CollectiveKind::all_gather:
      return buffer.send == buffer.receive + rank * bytes ||
             !overlap(buffer.send, bytes, buffer.receive, group_size * bytes);
    case CollectiveKind::reduce_scatter:
      // A group of one only copies.
      return (group_size == 1 && buffer.send == buffer.receive) ||
             !overlap(buffer.send, group_size * bytes, buffer.receive, bytes);
    case CollectiveKind::all_reduce:
      return buffer.send == buffer.receive || !overlap(buffer.send, bytes, buffer.receive, bytes);
    case CollectiveKind::barrier:
      break;
  }
  return true;
}

}  // namespace

std::string_view collective_name(CollectiveKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"all_gather", "reduce_scatter", "all_reduce", "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t element_size(ElementType element) {
  constexpr std::array<std::int64_t, 3> kSizes{1, 4, 8};
  return kSizes[static_cast<std::size_t>(element)];
}

std::int64_t logical_bytes(const CollectiveRequest& request, int group_size) {
  std::int64_t count = 0;
  for (const CollectiveBuffer& buffer : request.buffers) count += buffer.count;
  const std::int64_t peers = group_size - 1;
  switch (request.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return peers * count * element_size(request.element);
    case CollectiveKind::all_reduce:
      return (2 * peers * count + group_size - 1) / group_size * element_size(request.element);
    case CollectiveKind::barrier:
      break;
  }
  return 0;
}

std::string describe(const CollectiveRequest& request) {
  const std::string axes = request.axes == AxisSet() ? "no axes" : to_string(request.axes);
  const std::string text = fmt::format("{} over {}", collective_name(request.kind), axes);
  return request.label.empty() ? text : fmt::format("{} ({})", text, request.label);
}

std::string failure_text(int device, std::string_view reason) {
  const std::string prefix = fmt::format("device {}: ", device);
  if (reason.starts_with(prefix)) reason.remove_prefix(prefix.size());
  return fmt::format("device {} failed: {}", device, reason);
}

void check_request(const CollectiveRequest& request, int group_size, int rank) {
  const bool reduces = request.kind == CollectiveKind::reduce_scatter || request.kind == CollectiveKind::all_reduce;
  if (reduces && request.element == ElementType::bytes) {
    fail("{}: bytes cannot be reduced; expected float32 or float64", describe(request));
  }
  for (std::size_t i = 0; i < request.buffers.size(); ++i) {
    const CollectiveBuffer& buffer = request.buffers[i];
    if (buffer.count < 0) fail("{}: buffer {} has count {}", describe(request), i, buffer.count);
    if (buffer.count == 0) continue;
    if (buffer.send == nullptr || buffer.receive == nullptr) {
      fail("{}: buffer {} of {} elements has no memory to {}", describe(request), i, buffer.count,
           buffer.send == nullptr ? "send" : "receive");
    }
    if (!overlap_allowed(request, buffer, group_size, rank)) {
      fail("{}: send and receive memory of buffer {} overlap", describe(request), i);
    }
  }
}

void copy_to_self(const CollectiveRequest& request) {
  for (const CollectiveBuffer& buffer : request.buffers) {
    const std::int64_t bytes = buffer.count * element_size(request.element);
    if (bytes > 0 && buffer.send != buffer.receive) {
      std::memcpy(buffer.receive, buffer.send, static_cast<std::size_t>(bytes));
    }
  }
}

GroupMemory allocate_private(int group_size, int rank, std::int64_t bytes_per_rank) {
  if (bytes_per_rank < 0) fail("shared memory of {} bytes per device was asked for", bytes_per_rank);
  // Left untouched: a page belongs to the memory node of the device that writes it first.
  auto* memory =
      static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(group_size * bytes_per_rank), kAlignment));
  std::shared_ptr<std::byte[]> base(memory, [](std::byte* pointer) { ::operator delete[](pointer, kAlignment); });
  return {std::move(base), memory + rank * bytes_per_rank};
}

}  // namespace maxtext
