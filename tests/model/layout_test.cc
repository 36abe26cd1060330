// The layout of a model's parameters against the formula of its configuration.
#include "model/layout.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "config/load.h"

namespace maxtext {
namespace {

/// config prints its formula without building a layout; the two were written apart and hold each other right.
TEST(ModelLayout, HoldsAsManyParametersAsTheFormulaSays) {
  for (const std::string name : {"llama-tiny", "llama-quickstart", "llama2-7b", "llama3-8b", "llama3.1-70b",
                                 "mistral-7b", "mistral-tiny", "qwen2.5-0.5b", "qwen2.5-7b", "qwen3-0.6b", "qwen3-tiny",
                                 "qwen3-8b", "gemma2-2b", "gemma3-1b", "gemma3-tiny", "llama3.2-1b"}) {
    for (const std::string tied : {"true", "false"}) {
      ConfigRequest request;
      request.file =
          std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path() / "configs" / "base.yml";
      request.check_files = false;
      request.overrides = {"model_name=" + name, "logits_via_embedding=" + tied, "override_model_config=true"};
      const ModelShape shape = model_shape(load_config(request));
      for (const int shards : {1, 8}) {
        EXPECT_EQ(parameter_count(model_layout(shape, Mesh({1, shards, 1, 1}), 0)), parameter_count(shape))
            << name << " tied " << tied;
      }
    }
  }
}

}  // namespace
}  // namespace maxtext
