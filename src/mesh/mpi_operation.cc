#include "mesh/mpi_operation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "mesh/reduction.h"

namespace maxtext {
namespace {

std::unique_ptr<std::byte[]> allocate(std::int64_t bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
}

void copy(std::byte* target, const std::byte* source, std::int64_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, static_cast<std::size_t>(bytes));
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

MpiOperation::MpiOperation(CollectiveRequest request, MpiGroup& group, const TransportOptions& options, int tag_limit)
    : request_(std::move(request)),
      group_(group),
      options_(options),
      tag_limit_(tag_limit),
      number_(group.next++),
      size_(static_cast<int>(group.members.size())),
      rank_(group.rank),
      element_(element_size(request_.element)) {
  for (const CollectiveBuffer& buffer : request_.buffers) total_ += buffer.count;
  start();
}

void MpiOperation::start() {
  switch (request_.kind) {
    case CollectiveKind::barrier:
      return start_barrier();
    case CollectiveKind::all_gather:
      return start_gather();
    case CollectiveKind::reduce_scatter:
      return start_scatter();
    case CollectiveKind::all_reduce:
      return total_bytes() <= options_.small_all_reduce_bytes ? start_short_all_reduce() : start_long_all_reduce();
  }
}

bool MpiOperation::progress() {
  while (!done_) {
    int flag = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (flag == 0) return false;
    requests_.clear();
    sources_.clear();
    (this->*next_)();
  }
  return true;
}

std::string MpiOperation::absent_devices() {
  std::vector<int> absent;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int flag = 0;
    if (MPI_Test(&requests_[i], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0) continue;
    if (sources_[i] >= 0) absent.push_back(group_.members[static_cast<std::size_t>(sources_[i])]);
  }
  std::sort(absent.begin(), absent.end());
  absent.erase(std::unique(absent.begin(), absent.end()), absent.end());
  return absent.empty() ? "none (own messages not taken)" : fmt::format("{}", fmt::join(absent, ", "));
}

void MpiOperation::cancel() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (sources_[i] >= 0) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
  requests_.clear();
  sources_.clear();
  done_ = true;
}

std::int64_t MpiOperation::slice_begin(int rank) const {
  const std::int64_t slice = (total_ + size_ - 1) / size_;
  return std::min(rank * slice, total_) * element_;
}

// ---- barrier

void MpiOperation::start_barrier() {
  // One byte says that a device has come; nobody reads it.
  send_staging_ = allocate(1);
  receive_staging_ = allocate(size_);
  send_staging_[0] = std::byte{0};
  Receives receives;
  for (int r = 0; r < size_; ++r) receives.push_back({receive_staging_.get() + r, 1});
  exchange(Sends(static_cast<std::size_t>(size_), {send_staging_.get(), 1}), receives, &MpiOperation::complete);
}

// ---- all_gather

void MpiOperation::start_gather() {
  const std::byte* source = pack_whole();
  const std::int64_t bytes = total_bytes();
  if (packed()) receive_staging_ = allocate(size_ * bytes);
  std::byte* target = packed() || request_.buffers.empty() ? receive_staging_.get() : request_.buffers[0].receive;
  copy(target + rank_ * bytes, source, bytes);
  Receives receives;
  for (int r = 0; r < size_; ++r) receives.push_back({target + r * bytes, bytes});
  exchange(Sends(static_cast<std::size_t>(size_), {source, bytes}), receives, &MpiOperation::finish_gather);
}

void MpiOperation::finish_gather() {
  if (packed()) {
    const std::byte* source = receive_staging_.get();
    for (int r = 0; r < size_; ++r) {
      for (const CollectiveBuffer& buffer : request_.buffers) {
        const std::int64_t bytes = buffer.count * element_;
        copy(buffer.receive + r * bytes, source, bytes);
        source += bytes;
      }
    }
  }
  complete();
}

// ---- reduce_scatter

void MpiOperation::start_scatter() {
  const std::int64_t bytes = total_bytes();
  if (packed()) {
    send_staging_ = allocate(size_ * bytes);
    std::byte* target = send_staging_.get();
    for (int r = 0; r < size_; ++r) {
      for (const CollectiveBuffer& buffer : request_.buffers) {
        const std::int64_t part = buffer.count * element_;
        copy(target, buffer.send + r * part, part);
        target += part;
      }
    }
  }
  const std::byte* source = packed() || request_.buffers.empty() ? send_staging_.get() : request_.buffers[0].send;
  own_ = source + rank_ * bytes;
  receive_staging_ = allocate(size_ * bytes);
  Sends sends;
  Receives receives;
  for (int r = 0; r < size_; ++r) {
    sends.push_back({source + r * bytes, bytes});
    receives.push_back({receive_staging_.get() + r * bytes, bytes});
  }
  exchange(sends, receives, &MpiOperation::finish_scatter);
}

void MpiOperation::finish_scatter() {
  std::vector<const std::byte*> sources;
  for (int r = 0; r < size_; ++r) sources.push_back(r == rank_ ? own_ : receive_staging_.get() + r * total_bytes());
  reduce_buffers(sources);
  complete();
}

// ---- all_reduce

void MpiOperation::start_short_all_reduce() {
  own_ = pack_whole();
  const std::int64_t bytes = total_bytes();
  receive_staging_ = allocate(size_ * bytes);
  Receives receives;
  for (int r = 0; r < size_; ++r) receives.push_back({receive_staging_.get() + r * bytes, bytes});
  exchange(Sends(static_cast<std::size_t>(size_), {own_, bytes}), receives, &MpiOperation::finish_scatter);
}

void MpiOperation::start_long_all_reduce() {
  const std::byte* source = pack_whole();
  own_ = source + slice_begin(rank_);
  const std::int64_t bytes = slice_bytes(rank_);
  receive_staging_ = allocate(size_ * bytes);
  if (packed()) result_staging_ = allocate(total_bytes());
  reduced_ = packed() ? result_staging_.get() : request_.buffers[0].receive;
  Sends sends;
  Receives receives;
  for (int r = 0; r < size_; ++r) {
    sends.push_back({source + slice_begin(r), slice_bytes(r)});
    receives.push_back({receive_staging_.get() + r * bytes, bytes});
  }
  exchange(sends, receives, &MpiOperation::share_reduced_slice);
}

void MpiOperation::share_reduced_slice() {
  // All sends are complete, so the result may overwrite the send memory.
  std::vector<const std::byte*> sources;
  for (int r = 0; r < size_; ++r) {
    sources.push_back(r == rank_ ? own_ : receive_staging_.get() + r * slice_bytes(rank_));
  }
  std::byte* mine = reduced_ + slice_begin(rank_);
  reduce_in_order(request_.element, request_.reduce, sources, mine, slice_bytes(rank_) / element_);
  Receives receives;
  for (int r = 0; r < size_; ++r) receives.push_back({reduced_ + slice_begin(r), slice_bytes(r)});
  ++phase_;
  exchange(Sends(static_cast<std::size_t>(size_), {mine, slice_bytes(rank_)}), receives,
           &MpiOperation::finish_long_all_reduce);
}

void MpiOperation::finish_long_all_reduce() {
  if (packed()) unpack(reduced_);
  complete();
}

void MpiOperation::complete() {
  done_ = true;
  request_.keepalive.clear();
  send_staging_.reset();
  receive_staging_.reset();
  result_staging_.reset();
}

// ---- messages and packing

void MpiOperation::exchange(const Sends& sends, const Receives& receives, Step next) {
  next_ = next;
  const int tag = static_cast<int>((2 * number_ + phase_) % tag_limit_);
  // Everybody starts with a different peer, so that no device is sent to by all at once.
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + size_ - i) % size_;
    add_receives(receives[static_cast<std::size_t>(peer)], peer, tag);
  }
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    add_sends(sends[static_cast<std::size_t>(peer)], peer, tag);
  }
}

std::int64_t MpiOperation::message_bytes(std::int64_t left) const { return std::min(left, options_.max_message_bytes); }

void MpiOperation::add_receives(const Run<std::byte>& run, int peer, int tag) {
  for (std::int64_t first = 0; first < run.bytes; first += options_.max_message_bytes) {
    const auto bytes = static_cast<int>(message_bytes(run.bytes - first));
    requests_.push_back(MPI_REQUEST_NULL);
    sources_.push_back(peer);
    check_mpi(MPI_Irecv(run.data + first, bytes, MPI_BYTE, peer, tag, group_.comm, &requests_.back()), "MPI_Irecv");
  }
}

void MpiOperation::add_sends(const Run<const std::byte>& run, int peer, int tag) {
  for (std::int64_t first = 0; first < run.bytes; first += options_.max_message_bytes) {
    const auto bytes = static_cast<int>(message_bytes(run.bytes - first));
    requests_.push_back(MPI_REQUEST_NULL);
    sources_.push_back(-1);
    check_mpi(MPI_Isend(run.data + first, bytes, MPI_BYTE, peer, tag, group_.comm, &requests_.back()), "MPI_Isend");
  }
}

const std::byte* MpiOperation::pack_whole() {
  if (request_.buffers.size() == 1) return request_.buffers[0].send;
  send_staging_ = allocate(total_bytes());
  std::byte* target = send_staging_.get();
  for (const CollectiveBuffer& buffer : request_.buffers) {
    copy(target, buffer.send, buffer.count * element_);
    target += buffer.count * element_;
  }
  return send_staging_.get();
}

void MpiOperation::unpack(const std::byte* source) {
  for (const CollectiveBuffer& buffer : request_.buffers) {
    copy(buffer.receive, source, buffer.count * element_);
    source += buffer.count * element_;
  }
}

void MpiOperation::reduce_buffers(const std::vector<const std::byte*>& sources) {
  std::vector<const std::byte*> at = sources;
  for (const CollectiveBuffer& buffer : request_.buffers) {
    reduce_in_order(request_.element, request_.reduce, at, buffer.receive, buffer.count);
    for (const std::byte*& source : at) source += buffer.count * element_;
  }
}

}  // namespace maxtext
