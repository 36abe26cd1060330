#include "context/balanced.h"

#include <algorithm>
#include <numeric>

namespace maxtext {
namespace {

// A chunk's area and index. Ordered by both, so that every process takes the same decisions.
struct Item {
  double area = 0;
  std::int32_t chunk = 0;
  auto operator<=>(const Item&) const = default;
};

// Only chunks of equal size may change places: those of the full size (class 0) and those of the tail (class 1).
constexpr int kClasses = 2;

struct Device {
  std::vector<Item> items[kClasses];  // ascending
};

struct Swap {
  double maximum = 0;  // of the two devices, after it
  std::size_t other = 0;
  int size_class = 0;
  std::size_t give = 0;
  std::size_t take = 0;
};

int class_of(const ChunkGrid& grid, std::int32_t chunk) { return chunk < grid.full_chunks() ? 0 : 1; }

std::vector<Device> deal_largest_first(const ChunkGrid& grid, std::span<const double> area, std::span<double> load) {
  std::vector<Item> order(area.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = {area[i], static_cast<std::int32_t>(i)};
  // Equal areas in ascending order of chunks.
  std::sort(order.begin(), order.end(),
            [](const Item& a, const Item& b) { return a.area != b.area ? a.area > b.area : a.chunk < b.chunk; });
  const std::size_t room[kClasses] = {static_cast<std::size_t>(grid.full()), 1};
  std::vector<Device> devices(load.size());
  for (const Item& item : order) {
    const int size_class = class_of(grid, item.chunk);
    std::size_t best = load.size();
    for (std::size_t d = 0; d < load.size(); ++d) {
      if (devices[d].items[size_class].size() < room[size_class] && (best == load.size() || load[d] < load[best])) {
        best = d;
      }
    }
    devices[best].items[size_class].push_back(item);
    load[best] += item.area;
  }
  for (Device& device : devices) {
    for (auto& items : device.items) std::sort(items.begin(), items.end());
  }
  return devices;
}

// The best swap of one chunk of `from` against one of `other`: for each chunk given, the one taken in return that comes
// closest to halving the difference of the loads.
void consider(const std::vector<Device>& devices, std::span<const double> load, std::size_t from, std::size_t other,
              Swap& best) {
  const double half = (load[from] - load[other]) / 2;
  for (int size_class = 0; size_class < kClasses; ++size_class) {
    const auto& mine = devices[from].items[size_class];
    const auto& theirs = devices[other].items[size_class];
    for (std::size_t give = 0; give < mine.size(); ++give) {
      const Item wanted{mine[give].area - half, 0};
      const auto near =
          static_cast<std::size_t>(std::lower_bound(theirs.begin(), theirs.end(), wanted) - theirs.begin());
      for (std::size_t take = near == 0 ? 0 : near - 1; take < std::min(near + 1, theirs.size()); ++take) {
        const double moved = mine[give].area - theirs[take].area;
        const double maximum = std::max(load[from] - moved, load[other] + moved);
        if (maximum < best.maximum) best = {maximum, other, size_class, give, take};
      }
    }
  }
}

void replace(std::vector<Item>& items, std::size_t out, Item in) {
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(out));
  items.insert(std::lower_bound(items.begin(), items.end(), in), in);
}

// Swaps chunks of the most loaded device until nothing lowers the maximum, the rest of the imbalance is noise beside
// what kernels and clocks vary, or the budget is spent: each swap costs O(chunks · log(chunks per device)).
void refine(std::vector<Device>& devices, std::span<double> load) {
  constexpr double kGoodEnough = 1e-4;
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size());
  const std::size_t budget = 64 + 2 * load.size();
  for (std::size_t round = 0; round < budget; ++round) {
    const auto from = static_cast<std::size_t>(std::max_element(load.begin(), load.end()) - load.begin());
    if (load[from] <= mean * (1 + kGoodEnough)) return;
    Swap best{load[from], from, 0, 0, 0};
    for (std::size_t other = 0; other < load.size(); ++other) {
      if (load[other] < load[from]) consider(devices, load, from, other, best);
    }
    if (best.other == from) return;
    auto& mine = devices[from].items[best.size_class];
    auto& theirs = devices[best.other].items[best.size_class];
    const Item given = mine[best.give];
    const Item taken = theirs[best.take];
    replace(mine, best.give, taken);
    replace(theirs, best.take, given);
    load[from] -= given.area - taken.area;
    load[best.other] += given.area - taken.area;
  }
}

}  // namespace

Deal deal_balanced(const ChunkGrid& grid, std::span<const double> area, std::span<double> load) {
  std::vector<Device> devices = deal_largest_first(grid, area, load);
  refine(devices, load);
  Deal deal{grid, std::vector<std::int32_t>(area.size())};
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (const auto& items : devices[d].items) {
      for (const Item& item : items) deal.device[static_cast<std::size_t>(item.chunk)] = static_cast<std::int32_t>(d);
    }
  }
  return deal;
}

std::vector<std::int64_t> balanced_chunk_sizes(std::int64_t slots) {
  const std::int64_t multiple = slots >= 1024 ? 64 : slots >= 256 ? 16 : 1;
  std::vector<std::int64_t> sizes;
  for (const std::int64_t per_device : {16, 32, 64}) {
    const std::int64_t size = std::max<std::int64_t>(slots / per_device / multiple * multiple, multiple);
    if (sizes.empty() || size < sizes.back()) sizes.push_back(size);
  }
  return sizes;
}

double max_over_mean(std::span<const double> load) {
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  if (sum <= 0) return 1;
  return *std::max_element(load.begin(), load.end()) * static_cast<double>(load.size()) / sum;
}

}  // namespace maxtext
