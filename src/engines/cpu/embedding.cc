#include <algorithm>
#include <numeric>
#include <vector>

#include "engines/cpu/kernels/weight_rows.h"
#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"

namespace maxtext {
namespace {

void check_ids(std::string_view op, std::int64_t count, const std::int32_t* ids, std::int64_t vocabulary) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) fail("{}: id {} at {} is not within [0, {})", op, ids[i], i, vocabulary);
  }
}

/// Places of tokens sorted by id, those of one id ascending; and where each distinct id's run begins, with the end.
struct TokensById {
  std::vector<std::int32_t> places;
  std::vector<std::int64_t> run_begins;
};

TokensById sort_by_id(std::int64_t count, const std::int32_t* ids) {
  TokensById sorted;
  sorted.places.resize(static_cast<std::size_t>(count));
  std::iota(sorted.places.begin(), sorted.places.end(), 0);
  std::stable_sort(sorted.places.begin(), sorted.places.end(),
                   [ids](std::int32_t a, std::int32_t b) { return ids[a] < ids[b]; });
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i == 0 || ids[sorted.places[at]] != ids[sorted.places[at - 1]]) sorted.run_begins.push_back(i);
  }
  sorted.run_begins.push_back(count);
  return sorted;
}

/// Rows of a table as it is stored.
void widen_rows(Inputs inputs, const Tensor& output) {
  const WeightRows& kernels = weight_rows(active_instruction_set(), inputs[0].dtype());
  const std::int64_t width = inputs[0].dim(1);
  const std::int64_t row_bytes = width * dtype_size(inputs[0].dtype());
  const auto* const table = data<std::byte>(inputs[0]);
  const auto* const ids = data<std::int32_t>(inputs[1]);
  auto* const y = data<float>(output);
  for_rows(inputs[1].elements(), width,
           [&](std::int64_t i) { kernels.widen(table + ids[i] * row_bytes, width, y + i * width); });
}

}  // namespace

void run(CpuContext& /*context*/, const Embedding& op, Inputs inputs, Outputs outputs) {
  const std::int64_t count = inputs[1].elements();
  const std::int64_t width = inputs[0].dim(1);
  const auto* ids = data<std::int32_t>(inputs[1]);
  check_ids(op.name, count, ids, inputs[0].dim(0));
  if (inputs[0].dtype() != outputs[0].dtype()) return widen_rows(inputs, outputs[0]);
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* table = data<T>(inputs[0]);
    T* y = data<T>(outputs[0]);
    for_rows(count, width, [&](std::int64_t i) { std::copy_n(table + ids[i] * width, width, y + i * width); });
  });
}

void run(CpuContext& /*context*/, const EmbeddingBackward& op, Inputs inputs, Outputs outputs) {
  const std::int64_t count = inputs[1].elements();
  const std::int64_t width = inputs[2].dim(1);
  const auto* ids = data<std::int32_t>(inputs[1]);
  check_ids(op.name, count, ids, inputs[2].dim(0));
  const TokensById sorted = sort_by_id(count, ids);
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const auto& loops = vector_loops<T>();
    const T* dy = data<T>(inputs[0]);
    T* gradient = data<T>(outputs[0]);
    const auto runs = static_cast<std::int64_t>(sorted.run_begins.size()) - 1;
    if (!op.accumulate) {
      const std::int64_t rows = inputs[2].dim(0);
#pragma omp parallel for schedule(static)
      for (std::int64_t row = 0; row < rows; ++row) std::fill_n(gradient + row * width, width, T(0));
    }
    // One thread owns a row of the table, so rows are summed in the order of tokens.
#pragma omp parallel for schedule(dynamic, 16)
    for (std::int64_t r = 0; r < runs; ++r) {
      const auto at = static_cast<std::size_t>(r);
      for (std::int64_t i = sorted.run_begins[at]; i < sorted.run_begins[at + 1]; ++i) {
        const std::int64_t token = sorted.places[static_cast<std::size_t>(i)];
        T* row = gradient + ids[token] * width;
        loops.add(width, row, dy + token * width, row);
      }
    }
  });
}

}  // namespace maxtext
