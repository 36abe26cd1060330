#include "config/compile_topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "config/nearest.h"

namespace maxtext {
namespace {

using Bounds = std::array<int, 3>;

int product(const Bounds& bounds) { return bounds[0] * bounds[1] * bounds[2]; }

/// A family of TPUs whose slices are boxes in a three-dimensional torus.
struct CubeFamily {
  std::string_view name;
  int smallest_chips;
  int most_cubes;  // of 4x4x4 chips
  int devices_per_chip;
};

constexpr std::array kCubeFamilies = {
    CubeFamily{"v4", 4, 64, 2},
    CubeFamily{"v5p", 4, 140, 1},
    CubeFamily{"tpu7x", 1, 144, 2},
};
constexpr int kCoresPerChip = 2;
/// The longest row of cubes that MaxText has.
constexpr int kLongestSide = 61;

constexpr std::array kPlaneFamilies = {std::string_view("v5e"), std::string_view("v6e")};
constexpr std::array kGpuFamilies = {std::string_view("a100"), std::string_view("h100"), std::string_view("h200"),
                                     std::string_view("b200")};
constexpr int kMostGpuHosts = 128;
constexpr int kGpusPerHost = 8;

/// Bounds a <= b <= c of `cubes` cubes with the least sum; nothing where that is longer than kLongestSide.
std::optional<Bounds> most_compact_box(int cubes) {
  std::optional<Bounds> best;
  for (int a = 1; a * a * a <= cubes; ++a) {
    for (int b = a; a * b * b <= cubes; ++b) {
      if (cubes % (a * b) != 0) continue;
      const Bounds box = {a, b, cubes / (a * b)};
      if (!best || a + b + box[2] < (*best)[0] + (*best)[1] + (*best)[2]) best = box;
    }
  }
  return (*best)[2] <= kLongestSide ? best : std::nullopt;
}

CompileTopology tpu_slice(std::string_view family, const Bounds& bounds, int number, int devices_per_chip) {
  CompileTopology topology;
  topology.name = fmt::format("{}-{}", family, number);
  topology.accelerator = &accelerator(family);
  topology.bounds = bounds;
  topology.host_bounds = product(bounds) == 1 ? Bounds{1, 1, 1} : Bounds{2, 2, 1};
  topology.devices_per_slice = product(bounds) * devices_per_chip;
  return topology;
}

void add_cubes(const CubeFamily& family, std::vector<CompileTopology>& topologies) {
  const auto add = [&](const Bounds& bounds) {
    topologies.push_back(tpu_slice(family.name, bounds, product(bounds) * kCoresPerChip, family.devices_per_chip));
  };
  for (const Bounds& bounds : {Bounds{1, 1, 1}, Bounds{2, 2, 1}, Bounds{2, 2, 2}, Bounds{2, 2, 4}, Bounds{2, 4, 4}}) {
    if (product(bounds) >= family.smallest_chips) add(bounds);
  }
  for (int cubes = 1; cubes <= family.most_cubes; ++cubes) {
    if (const auto box = most_compact_box(cubes)) add({4 * (*box)[0], 4 * (*box)[1], 4 * (*box)[2]});
  }
}

void add_planes(std::string_view family, std::vector<CompileTopology>& topologies) {
  for (const Bounds& bounds : {Bounds{1, 1, 1}, Bounds{2, 2, 1}, Bounds{2, 4, 1}, Bounds{4, 4, 1}, Bounds{4, 8, 1},
                               Bounds{8, 8, 1}, Bounds{8, 16, 1}, Bounds{16, 16, 1}}) {
    topologies.push_back(tpu_slice(family, bounds, product(bounds), 1));
  }
}

CompileTopology gpu_hosts(std::string_view family, int hosts, int gpus_per_host) {
  CompileTopology topology;
  topology.name = fmt::format("{}-{}", family, hosts * gpus_per_host);
  topology.accelerator = &accelerator(family);
  topology.bounds = {1, hosts, gpus_per_host};
  topology.devices_per_slice = hosts * gpus_per_host;
  return topology;
}

void add_gpus(std::string_view family, std::vector<CompileTopology>& topologies) {
  for (int gpus = 1; gpus < kGpusPerHost; gpus *= 2) topologies.push_back(gpu_hosts(family, 1, gpus));
  for (int hosts = 1; hosts <= kMostGpuHosts; ++hosts) topologies.push_back(gpu_hosts(family, hosts, kGpusPerHost));
}

std::vector<CompileTopology> make_topologies() {
  std::vector<CompileTopology> topologies;
  for (const CubeFamily& family : kCubeFamilies) add_cubes(family, topologies);
  for (const std::string_view family : kPlaneFamilies) add_planes(family, topologies);
  for (const std::string_view family : kGpuFamilies) add_gpus(family, topologies);
  topologies.push_back(gpu_hosts("h100", 1, kGpusPerHost));
  topologies.back().name = "a3";
  return topologies;
}

/// In order of families, each in order of size.
const std::vector<CompileTopology>& all_topologies() {
  static const std::vector<CompileTopology> topologies = make_topologies();
  return topologies;
}

}  // namespace

const CompileTopology* find_compile_topology(std::string_view name) {
  const auto found = std::ranges::find(all_topologies(), name, &CompileTopology::name);
  return found == all_topologies().end() ? nullptr : &*found;
}

std::string compile_topology_families() {
  std::vector<std::string> families;
  for (const Accelerator& each : accelerators()) {
    const auto belongs = [&](const CompileTopology& topology) {
      return topology.accelerator == &each && topology.name.starts_with(each.name);
    };
    const auto first = std::ranges::find_if(all_topologies(), belongs);
    const auto end = std::find_if_not(first, all_topologies().end(), belongs);
    families.push_back(fmt::format("{} to {}", first->name, std::prev(end)->name));
  }
  return fmt::format("{}", fmt::join(families, ", "));
}

std::string did_you_mean_topology(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CompileTopology& topology : all_topologies()) names.push_back(topology.name);
  return did_you_mean(name, names);
}

std::string tpu_topology_name(const CompileTopology& topology) {
  if (topology.accelerator->hardware != Hardware::tpu) {
    throw std::logic_error(fmt::format("{} is no topology of a TPU", topology.name));
  }
  const auto& [x, y, z] = topology.bounds;
  const bool plane = std::ranges::find(kPlaneFamilies, topology.accelerator->name) != kPlaneFamilies.end();
  if (plane) return fmt::format("{}:{}x{}", topology.accelerator->name, x, y);
  return fmt::format("{}:{}x{}x{}", topology.accelerator->name, x, y, z);
}

std::string gpu_topology_option(const CompileTopology& topology, int slices) {
  if (topology.accelerator->hardware != Hardware::gpu) {
    throw std::logic_error(fmt::format("{} is no topology of GPUs", topology.name));
  }
  return fmt::format("{}x1x{}", topology.bounds[1] * slices, topology.bounds[2]);
}

}  // namespace maxtext
