#include "config/key_groups.h"

namespace maxtext {
namespace {

constexpr double kMostDevices = 1 << 20;  // as for the mesh of training

KeyGroup prompt_keys() {
  return {"Generation",
          {
              text_key("prompt", "I love to", "Text to continue; several prompts come from prompt_file"),
              text_key("prompt_file", "",
                       "File of prompts instead of prompt: plain text is one prompt; .jsonl has one per line, a string "
                       "or an object with the field `prompt`; - reads plain text from standard input")
                  .ours(),
              integer_key("max_prefill_predict_length", 64, "Longest prompt, in tokens; a longer one is an error")
                  .at_least(1)
                  .at_most(2147483647),
              list_key("stop_strings", {}, "Texts that end an answer; they are not part of it").ours(),
              boolean_key("ignore_eos", false, "Go on after end-of-sequence tokens").ours(),
              text_key("autoregressive_decode_assert", "", "The whole answer expected: anything else exits with 1"),
          }};
}

KeyGroup sampling_keys() {
  return {
      "Sampling",
      {
          text_key("decode_sampling_strategy", "greedy",
                   "greedy: the most probable token; weighted: by temperature; topk, nucleus, composite: with "
                   "decode_sampling_top_k, decode_sampling_nucleus_p, both. Order: repetition penalty, temperature, "
                   "top-k, top-p, min-p")
              .one_of({"greedy", "weighted", "nucleus", "topk", "composite"}),
          real_key("decode_sampling_temperature", 1, "Divides the logits; towards 0 it is greedy").more_than(0),
          integer_key("decode_sampling_top_k", 0, "Most probable tokens that stay; 0 keeps all").at_least(0),
          real_key("decode_sampling_nucleus_p", -1, "Tokens that stay sum to this probability; -1 keeps all")
              .more_than(0)
              .at_most(1)
              .or_minus_one(),
          real_key("decode_sampling_min_p", 0, "Tokens stay with this share of the largest probability; 0 keeps all")
              .ours()
              .at_least(0)
              .at_most(1),
          real_key("decode_sampling_repetition_penalty", 1,
                   "Makes tokens that occurred less probable, below 1 more probable; 1 does nothing")
              .ours()
              .at_least(0.001)
              .at_most(1000),
          integer_key("decode_sampling_seed", -1, "Seed of sampling; -1 takes one from the clock and prints it")
              .ours()
              .at_least(0)
              .or_minus_one(),
      }};
}

KeyGroup cache_keys() {
  return {"Key/value cache",
          {
              text_key("attention", "autoselected",
                       "Kernel of attention. Engines choose their own; the modes of MaxText that cannot decode are "
                       "refused by `decode`, all others are the same kernels here")
                  .one_of({"autoselected", "pallas_gpu", "dot_product", "flash", "cudnn_flash_te", "cudnn_flash_jax",
                           "paged"}),
              integer_key("ici_context_autoregressive_parallelism", 1,
                          "Devices that share the positions of the KV cache when decoding")
                  .at_least(1)
                  .at_most(kMostDevices),
              integer_key("ici_autoregressive_parallelism", 1,
                          "Multiplies ici_context_autoregressive_parallelism: both share the cache the same way here")
                  .at_least(1)
                  .at_most(kMostDevices),
              text_key("kv_cache_dtype", "float32", "Type in which keys and values are kept")
                  .ours()
                  .one_of({"float32", "bfloat16", "float16"}),
              boolean_key("quantize_kvcache", false, "Keep keys and values as int8 with a scale per position and head"),
              integer_key("prefill_chunk_size", 512, "Tokens of a prompt that are read at a time")
                  .at_least(1)
                  .at_most(2147483647),
              boolean_key("decode_batch_invariant", false,
                          "Answers are bitwise independent of the other prompts of the batch and of the number of "
                          "threads")
                  .ours(),
          }};
}

}  // namespace

std::vector<KeyGroup> inference_keys() { return {prompt_keys(), sampling_keys(), cache_keys()}; }

}  // namespace maxtext
