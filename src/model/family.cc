#include "model/family.h"

#include <array>
#include <string>

#include "base/error.h"

namespace maxtext {

const ModelFamily& model_family(std::string_view name) {
  const std::array<const ModelFamily*, 6> families{&kLlama, &kMistral, &kQwen2, &kQwen3, &kGemma2, &kGemma3};
  std::string names;
  for (const ModelFamily* family : families) {
    if (family->name == name) return *family;
    names += names.empty() ? "" : ", ";
    names += family->name;
  }
  fail_config("model family {} is unknown; known are {}", name, names);
}

}  // namespace maxtext
