#include "cli/memory_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace maxtext {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kWorthNaming = std::int64_t{1} << 20;

std::vector<std::string> keys_of_activations(const RunSetup& setup) {
  std::vector<std::string> keys;
  if (setup.decoder.remat.keep_all || !setup.decoder.remat.names.empty()) keys.emplace_back("remat_policy=full");
  // The same global batch in more, smaller parts, as far as each group of a sequence's devices has a row.
  const int groups = setup.mesh.size(Axis::data) * setup.mesh.size(Axis::fsdp);
  if (setup.batch.global > std::int64_t{setup.micro_batches} * groups) {
    keys.emplace_back(
        fmt::format("gradient_accumulation_steps={} with per_device_batch_size halved", 2 * setup.micro_batches));
  }
  keys.emplace_back("a larger ici_context_parallelism");
  if (setup.decoder.dtype == DType::float32) keys.emplace_back("dtype=bfloat16");
  return keys;
}

std::vector<std::string> keys_of(MemoryKind kind, const RunSetup& setup) {
  switch (kind) {
    case MemoryKind::parameters:
    case MemoryKind::optimizer:
    case MemoryKind::gradients:
      return {"a larger ici_fsdp_parallelism", "a larger ici_context_parallelism", "a larger ici_tensor_parallelism"};
    case MemoryKind::gathered_parameters: {
      std::vector<std::string> keys = {"a larger ici_tensor_parallelism"};
      if (setup.decoder.dtype == DType::float32) keys.emplace_back("dtype=bfloat16");
      return keys;
    }
    case MemoryKind::activations:
      return keys_of_activations(setup);
    case MemoryKind::inputs:
      return {"a larger ici_context_parallelism"};
  }
  return {};
}

}  // namespace

Json largest_items(const RunSetup& setup, const StepPrediction& prediction) {
  std::vector<MemoryKind> kinds;
  for (int i = 0; i < kMemoryKindCount; ++i) kinds.push_back(static_cast<MemoryKind>(i));
  const auto bytes = [&](MemoryKind kind) { return prediction.peak_by_kind[static_cast<std::size_t>(kind)]; };
  std::ranges::sort(kinds, std::ranges::greater{}, bytes);
  Json items = Json::array();
  for (const MemoryKind kind : kinds) {
    if (bytes(kind) < kWorthNaming && !items.empty()) break;
    items.push_back(
        {{"kind", std::string(memory_kind_name(kind))}, {"bytes", bytes(kind)}, {"keys", keys_of(kind, setup)}});
  }
  return items;
}

void print_largest_items(const Json& items) {
  fmt::print("what it holds, as predicted, and what lowers that\n");
  for (const Json& item : items) {
    fmt::print("  {:<22} {}: {}\n", item["kind"].get<std::string>(), gib(item["bytes"]),
               fmt::join(item["keys"].get<std::vector<std::string>>(), ", or "));
  }
}

}  // namespace maxtext
