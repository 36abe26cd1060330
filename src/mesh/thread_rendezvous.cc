#include "mesh/thread_rendezvous.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mesh/reduction.h"

namespace maxtext {
namespace {

// A slice of all_reduce is worth a thread's attention from here on.
constexpr std::int64_t kSliceElements = 4096;

std::int64_t total_count(const CollectiveRequest& request) {
  std::int64_t count = 0;
  for (const CollectiveBuffer& buffer : request.buffers) count += buffer.count;
  return count;
}

std::string counts_of(const CollectiveRequest& request) {
  std::string text;
  for (const CollectiveBuffer& buffer : request.buffers) {
    text += (text.empty() ? "" : ", ") + std::to_string(buffer.count);
  }
  return fmt::format("[{}] elements of {} bytes", text, element_size(request.element));
}

bool same_collective(const CollectiveRequest& a, const CollectiveRequest& b) {
  const auto same_count = [](const CollectiveBuffer& x, const CollectiveBuffer& y) { return x.count == y.count; };
  return a.kind == b.kind && a.element == b.element && a.reduce == b.reduce &&
         std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(), same_count);
}

}  // namespace

Rendezvous::Rendezvous(std::vector<int> members, CollectiveKind kind)
    : members_(std::move(members)), kind_(kind), posts_(members_.size()), tasks_(members_.size(), TaskState::open) {}

void Rendezvous::post(int rank, CollectiveRequest request) {
  check_same(rank, request);
  Post& post = posts_[static_cast<std::size_t>(rank)];
  post.request = std::move(request);
  post.posted = true;
  ++posted_count_;
  if (kind_ == CollectiveKind::all_reduce && reduced_ == nullptr) {
    const std::int64_t bytes = total_count(post.request) * element_size(post.request.element);
    reduced_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  }
}

void Rendezvous::check_same(int rank, const CollectiveRequest& request) const {
  const auto first = std::find_if(posts_.begin(), posts_.end(), [](const Post& post) { return post.posted; });
  if (first == posts_.end() || same_collective(first->request, request)) return;
  fail(
      "device {} started {} with {} where device {} started {} with {}; all devices of a group must start the same "
      "collectives in the same order",
      members_[static_cast<std::size_t>(rank)], describe(request), counts_of(request),
      members_[static_cast<std::size_t>(first - posts_.begin())], describe(first->request), counts_of(first->request));
}

std::string Rendezvous::absent_devices() const {
  std::string text;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (!posts_[rank].posted) text += (text.empty() ? "" : ", ") + std::to_string(members_[rank]);
  }
  return text;
}

std::optional<int> Rendezvous::claim(int rank, bool of_others) {
  const int size = static_cast<int>(members_.size());
  for (int i = 0; i < (of_others ? size : 1); ++i) {
    const int task = (rank + i) % size;
    TaskState& state = tasks_[static_cast<std::size_t>(task)];
    if (state != TaskState::open) continue;
    state = TaskState::running;
    ++running_count_;
    return task;
  }
  return std::nullopt;
}

void Rendezvous::finish_task(int task) {
  tasks_[static_cast<std::size_t>(task)] = TaskState::done;
  --running_count_;
  ++done_count_;
}

bool Rendezvous::needs_others(int rank) const {
  return kind_ == CollectiveKind::all_reduce || request(rank).keepalive.empty();
}

std::vector<std::shared_ptr<void>> Rendezvous::take_released() {
  std::vector<std::shared_ptr<void>> released;
  if (!all_tasks_done()) return released;
  for (Post& post : posts_) {
    if (!post.left) continue;
    std::vector<std::shared_ptr<void>>& keepalive = post.request.keepalive;
    std::move(keepalive.begin(), keepalive.end(), std::back_inserter(released));
    keepalive.clear();
  }
  return released;
}

void Rendezvous::run(int task) {
  switch (kind_) {
    case CollectiveKind::all_gather:
      return gather(task);
    case CollectiveKind::reduce_scatter:
      return reduce_scatter(task);
    case CollectiveKind::all_reduce:
      return reduce_slice(task);
    case CollectiveKind::barrier:
      return;
  }
}

void Rendezvous::gather(int task) const {
  const CollectiveRequest& mine = request(task);
  for (std::size_t b = 0; b < mine.buffers.size(); ++b) {
    const std::int64_t bytes = mine.buffers[b].count * element_size(mine.element);
    if (bytes == 0) continue;
    for (std::size_t r = 0; r < posts_.size(); ++r) {
      const std::byte* source = posts_[r].request.buffers[b].send;
      std::byte* target = mine.buffers[b].receive + static_cast<std::int64_t>(r) * bytes;
      if (source != target) std::memcpy(target, source, static_cast<std::size_t>(bytes));
    }
  }
}

void Rendezvous::reduce_scatter(int task) const {
  const CollectiveRequest& mine = request(task);
  std::vector<const std::byte*> sources(posts_.size());
  for (std::size_t b = 0; b < mine.buffers.size(); ++b) {
    const CollectiveBuffer& buffer = mine.buffers[b];
    if (buffer.count == 0) continue;
    for (std::size_t r = 0; r < posts_.size(); ++r) {
      sources[r] = posts_[r].request.buffers[b].send + task * buffer.count * element_size(mine.element);
    }
    reduce_in_order(mine.element, mine.reduce, sources, buffer.receive, buffer.count);
  }
}

void Rendezvous::reduce_slice(int task) {
  const CollectiveRequest& mine = request(task);
  const std::int64_t size = element_size(mine.element);
  const std::int64_t total = total_count(mine);
  const auto members = static_cast<std::int64_t>(members_.size());
  const std::int64_t slice = std::max((total + members - 1) / members, kSliceElements);
  const std::int64_t begin = std::min(task * slice, total);
  const std::int64_t end = std::min(begin + slice, total);
  std::vector<const std::byte*> sources(posts_.size());
  std::int64_t first = 0;  // where the buffer starts in the temporary
  for (std::size_t b = 0; b < mine.buffers.size(); ++b) {
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(end, first + mine.buffers[b].count);
    if (from < to) {
      for (std::size_t r = 0; r < posts_.size(); ++r) {
        sources[r] = posts_[r].request.buffers[b].send + (from - first) * size;
      }
      reduce_in_order(mine.element, mine.reduce, sources, reduced_.get() + from * size, to - from);
    }
    first += mine.buffers[b].count;
  }
}

void Rendezvous::deliver(int rank) const {
  if (kind_ != CollectiveKind::all_reduce) return;
  const CollectiveRequest& mine = request(rank);
  const std::byte* source = reduced_.get();
  for (const CollectiveBuffer& buffer : mine.buffers) {
    const std::int64_t bytes = buffer.count * element_size(mine.element);
    if (bytes > 0) std::memcpy(buffer.receive, source, static_cast<std::size_t>(bytes));
    source += bytes;
  }
}

}  // namespace maxtext
