#include "tensor/dtype.h"

#include <array>
#include <string>

#include "base/error.h"

namespace maxtext {
namespace {

struct DTypeFact {
  DType dtype;
  std::int64_t size;
  std::string_view name;
};

constexpr std::array<DTypeFact, 9> kFacts{{{DType::float32, 4, "float32"},
                                           {DType::float64, 8, "float64"},
                                           {DType::bfloat16, 2, "bfloat16"},
                                           {DType::float16, 2, "float16"},
                                           {DType::int32, 4, "int32"},
                                           {DType::int64, 8, "int64"},
                                           {DType::uint8, 1, "uint8"},
                                           {DType::boolean, 1, "bool"},
                                           {DType::int8, 1, "int8"}}};

const DTypeFact& fact(DType dtype) { return kFacts[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::int64_t dtype_size(DType dtype) { return fact(dtype).size; }

std::string_view dtype_name(DType dtype) { return fact(dtype).name; }

DType parse_dtype(std::string_view name) {
  std::string names;
  for (const DTypeFact& candidate : kFacts) {
    if (candidate.name == name) return candidate.dtype;
    names += names.empty() ? "" : ", ";
    names += candidate.name;
  }
  fail("unknown dtype '{}'; known are {}", name, names);
}

}  // namespace maxtext
