// The parts of the key table. Internal to the config layer: others use keys.h.
#pragma once

#include <string>
#include <vector>

#include "config/keys.h"

namespace maxtext {

Key boolean_key(std::string name, bool value, std::string help);
Key integer_key(std::string name, std::int64_t value, std::string help);
Key real_key(std::string name, double value, std::string help);
Key text_key(std::string name, std::string value, std::string help);
Key list_key(std::string name, std::vector<std::string> value, std::string help);

struct KeyGroup {
  std::string title;
  std::vector<Key> keys;
};

std::vector<KeyGroup> run_keys();          // run, checkpoints, metrics, evaluation
std::vector<KeyGroup> engine_keys();       // engine, hardware, compilation by XLA
std::vector<KeyGroup> parallelism_keys();  // devices, mesh, context parallelism, memory
std::vector<KeyGroup> model_keys();
std::vector<KeyGroup> data_keys();       // batch, dataset, tokenizer
std::vector<KeyGroup> training_keys();   // loop, learning rate, optimizer
std::vector<KeyGroup> inference_keys();  // prompts, sampling, KV cache
std::vector<KeyGroup> fixed_keys();
std::vector<KeyGroup> ignored_keys();

}  // namespace maxtext
