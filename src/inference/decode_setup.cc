#include "inference/decode_setup.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "base/available_memory.h"
#include "base/error.h"
#include "mesh/thread_transport.h"
#include "model/layout.h"
#include "model/tensor_parallel.h"

namespace maxtext {
namespace {

constexpr double kGibibyte = 1073741824.0;

void check_attention(const Config& config) {
  const std::string& attention = config.text("attention");
  if (attention != "autoselected" && attention != "pallas_gpu" && attention != "dot_product") {
    fail_config("{}: cannot decode; use attention=autoselected or attention=pallas_gpu", config.describe("attention"));
  }
}

void check_lengths(const Config& config) {
  const std::int64_t prefill = config.integer("max_prefill_predict_length");
  if (config.integer("max_target_length") <= prefill) {
    fail_config("{}: expected more than max_prefill_predict_length={}, which is kept for the prompt",
                config.describe("max_target_length"), prefill);
  }
}

/// Before StopStrings, which cannot name the key.
void check_stop_strings(const Config& config) {
  const std::vector<std::string>& strings = config.list("stop_strings");
  if (std::ranges::find(strings, "") == strings.end()) return;
  fail_config("{}: a stop string is empty", config.describe("stop_strings"));
}

/// The seed given, or one from the clock.
std::uint64_t resolve_seed(std::int64_t seed) {
  if (seed >= 0) return static_cast<std::uint64_t>(seed);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()) & 0x7fffffffU;
}

/// Token ids that the model can read.
std::vector<std::int32_t> encode_prompt(const Config& config, const DecodeSetup& setup, const Prompt& prompt) {
  std::vector<std::int32_t> ids = setup.tokenizer->encode(prompt.text, {.add_special_tokens = config.flag("add_bos")});
  const auto length = static_cast<std::int64_t>(ids.size());
  if (length > config.integer("max_prefill_predict_length")) {
    fail_config("{}: the prompt has {} tokens, expected at most {}", prompt.origin, length,
                config.describe("max_prefill_predict_length"));
  }
  if (length == 0) fail_config("{}: the prompt has no tokens", prompt.origin);
  const std::int32_t largest = std::ranges::max(ids);
  if (largest >= setup.files.shape.vocab_size) {
    fail_config("{}: the tokenizer gives the id {}, the model has vocab_size={}: they do not belong together",
                prompt.origin, largest, setup.files.shape.vocab_size);
  }
  return ids;
}

std::vector<std::string> notes_on(const Config& config, const DecodeSetup& setup) {
  const ModelShape& shape = setup.files.shape;
  std::vector<std::string> notes = notes_on_tokenizer(*setup.tokenizer, shape);
  if (shape.max_position_embeddings > 0 && config.integer("max_target_length") > shape.max_position_embeddings) {
    notes.push_back(fmt::format("{} is more than the model's max_position_embeddings={}: answers may degrade beyond it",
                                config.describe("max_target_length"), shape.max_position_embeddings));
  }
  const int sharers = setup.mesh.size(Axis::context);
  const CacheOptions cache = paged_cache(setup.model, sharers);
  const std::int64_t pages = (cache.max_length + cache.page - 1) / cache.page;
  if (sharers > pages) {
    notes.push_back(fmt::format("{} are {} pages of {}: {} of {} devices hold nothing of the KV cache",
                                config.describe("max_target_length"), pages, cache.page, sharers - pages, sharers));
  }
  return notes;
}

/// Of all devices, whose slices are alike: they share what is mapped, and each has its own of the rest: float32, or
/// columns as they are stored, as InferenceWeights does it.
std::int64_t weight_bytes(const ModelFiles& files, const Mesh& mesh) {
  std::int64_t shared = 0;
  std::int64_t own = 0;
  for (const ParameterGroup& group : model_layout(files.shape, mesh, 0).groups) {
    for (std::size_t k = 0; k < group.parameters.size(); ++k) {
      const ParameterInfo& parameter = group.parameters[k];
      const ParameterSlice& slice = group.slices[k];
      const bool mapped = files.weights != nullptr && files.weights->contains(parameter.name) &&
                          files.weights->mapped(parameter.name) != nullptr;
      const std::int64_t size = dtype_size(mapped ? files.weights->spec(parameter.name).dtype : DType::float32);
      if (mapped) shared += element_count(parameter.shape) * size;
      const bool columns = slice.dimension > 0 && slice.shape != parameter.shape;
      if (!mapped || columns) own += element_count(slice.shape) * size;
    }
  }
  return shared + own * mesh.device_count();
}

void check_memory(const DecodeSetup& setup) {
  const std::optional<std::int64_t> available = available_memory();
  const std::int64_t weights = weight_bytes(setup.files, setup.mesh);
  const int sharers = setup.mesh.size(Axis::context);
  const CacheOptions cache = paged_cache(setup.model, sharers);
  const std::int64_t keys = setup.mesh.size(kTensorAxes) *
                            cache_bytes(tensor_part(setup.files.shape, setup.mesh), cache, cache.max_length, sharers);
  if (!available || weights + keys <= *available) return;
  fail_config(
      "not enough memory: {:.2f} GiB of weights and {:.2f} GiB of KV cache for {} sequences of "
      "max_target_length={} are needed, {:.2f} GiB are available",
      static_cast<double>(weights) / kGibibyte, static_cast<double>(keys) / kGibibyte, cache.sequences,
      cache.max_length, static_cast<double>(*available) / kGibibyte);
}

}  // namespace

CachedModelOptions cached_model_options(const Config& config) {
  CachedModelOptions options;
  options.cache.max_length = config.integer("max_target_length");
  options.cache.dtype = config.flag("quantize_kvcache") ? DType::int8 : parse_dtype(config.text("kv_cache_dtype"));
  options.prefill_chunk = config.integer("prefill_chunk_size");
  options.batch_invariant = config.flag("decode_batch_invariant");
  return options;
}

Mesh generation_mesh(const Config& config, const ModelShape& shape) {
  const std::int64_t context = config.integer("ici_context_autoregressive_parallelism");
  const std::int64_t other = config.integer("ici_autoregressive_parallelism");
  const std::int64_t tensor = std::max<std::int64_t>(config.integer("ici_tensor_parallelism"), 1);
  if (context * other * tensor > kMostThreadDevices) {
    fail_config("{}, {} and {}: they make {} devices, each a thread of this process: expected at most {}",
                config.describe("ici_context_autoregressive_parallelism"),
                config.describe("ici_autoregressive_parallelism"), config.describe("ici_tensor_parallelism"),
                context * other * tensor, kMostThreadDevices);
  }
  return model_mesh(shape, {1, 1, static_cast<int>(context * other), static_cast<int>(tensor)});
}

SamplingOptions sampling_options(const Config& config) {
  SamplingOptions options;
  const std::string& strategy = config.text("decode_sampling_strategy");
  options.greedy = strategy == "greedy";
  options.repetition_penalty = config.real("decode_sampling_repetition_penalty");
  options.temperature = config.real("decode_sampling_temperature");
  options.min_p = config.real("decode_sampling_min_p");
  if (strategy == "topk" || strategy == "composite") {
    options.top_k = config.integer("decode_sampling_top_k");
    if (options.top_k == 0) {
      fail_config("decode_sampling_strategy={} needs decode_sampling_top_k of at least 1, got 0", strategy);
    }
  }
  if (strategy == "nucleus" || strategy == "composite") {
    options.top_p = config.real("decode_sampling_nucleus_p");
    if (options.top_p < 0) {
      fail_config("decode_sampling_strategy={} needs decode_sampling_nucleus_p above 0 and at most 1, got -1",
                  strategy);
    }
  }
  return options;
}

std::vector<std::string> unused_sampling_keys(const Config& config) {
  const std::string& strategy = config.text("decode_sampling_strategy");
  std::vector<std::string> unused;
  if (strategy == "greedy") {
    unused = {"decode_sampling_temperature", "decode_sampling_min_p", "decode_sampling_seed"};
  }
  if (strategy != "topk" && strategy != "composite") unused.emplace_back("decode_sampling_top_k");
  if (strategy != "nucleus" && strategy != "composite") unused.emplace_back("decode_sampling_nucleus_p");
  const Config defaults;
  std::erase_if(unused, [&](const std::string& key) { return config.value(key) == defaults.value(key); });
  return unused;
}

DecodeSetup decode_setup(const Config& config) {
  check_attention(config);
  check_lengths(config);
  check_stop_strings(config);
  const SamplingOptions sampling = sampling_options(config);
  DecodeSetup setup;
  setup.prompts = read_prompts(config);
  setup.files = open_model_files(config);
  setup.mesh = generation_mesh(config, setup.files.shape);
  setup.tokenizer = open_model_tokenizer(config);
  setup.weights_seed = static_cast<std::uint64_t>(config.integer("init_weights_seed"));
  setup.sampling_seed = resolve_seed(config.integer("decode_sampling_seed"));
  std::set<std::int32_t> stop_ids;
  if (!config.flag("ignore_eos")) {
    stop_ids = setup.files.stop_ids;
    if (const auto eos = setup.tokenizer->eos_id()) stop_ids.insert(*eos);
  }
  for (const Prompt& prompt : setup.prompts) {
    TextRequest request;
    request.prompt = encode_prompt(config, setup, prompt);
    request.max_new_tokens = config.integer("max_target_length") - static_cast<std::int64_t>(request.prompt.size());
    request.sampling = sampling;
    request.seed = setup.sampling_seed;
    request.stop_ids = stop_ids;
    request.stop_strings = config.list("stop_strings");
    setup.requests.push_back(std::move(request));
  }
  setup.model = cached_model_options(config);
  const auto slots = static_cast<std::int64_t>(std::ceil(config.real("per_device_batch_size")));
  setup.model.cache.sequences = std::min(slots, static_cast<std::int64_t>(setup.prompts.size()));
  check_memory(setup);
  setup.notes = notes_on(config, setup);
  return setup;
}

}  // namespace maxtext
