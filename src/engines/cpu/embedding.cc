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

/// Where ids lie in a table, which is a part of a larger one if the input `at` gives its first row.
class TableRows {
 public:
  TableRows(std::string_view op, Inputs inputs, std::size_t at, const Tensor& ids, std::int64_t rows)
      : ids_(data<std::int32_t>(ids)), rows_(rows) {
    if (inputs.size() > at) {
      first_ = *data<std::int32_t>(inputs[at]);
    } else {
      check_ids(op, ids.elements(), ids_, rows);
    }
  }

  const std::int32_t* ids() const { return ids_; }
  /// The row that token i's id has in this table; negative where another one has it.
  std::int64_t row_of(std::int64_t i) const {
    const std::int64_t row = ids_[i] - first_;
    return row < rows_ ? row : -1;
  }

 private:
  const std::int32_t* ids_;
  std::int64_t rows_;
  std::int64_t first_ = 0;
};

/// y = the rows of the table by `copy(row, y's row)`, zeros where another table has them.
template <typename T, typename Copy>
void look_up(std::int64_t count, std::int64_t width, const TableRows& rows, T* y, Copy copy) {
  for_rows(count, width, [&](std::int64_t i) {
    const std::int64_t row = rows.row_of(i);
    T* const to = y + i * width;
    if (row < 0) {
      std::fill_n(to, width, T{0});
    } else {
      copy(row, to);
    }
  });
}

}  // namespace

void run(CpuContext& /*context*/, const Embedding& op, Inputs inputs, Outputs outputs) {
  const std::int64_t count = inputs[1].elements();
  const std::int64_t width = inputs[0].dim(1);
  const TableRows rows(op.name, inputs, 2, inputs[1], inputs[0].dim(0));
  if (inputs[0].dtype() != outputs[0].dtype()) {  // as it is stored
    const WeightRows& kernels = weight_rows(active_instruction_set(), inputs[0].dtype());
    const std::int64_t row_bytes = width * dtype_size(inputs[0].dtype());
    const auto* const table = data<std::byte>(inputs[0]);
    return look_up(count, width, rows, data<float>(outputs[0]),
                   [&](std::int64_t row, float* to) { kernels.widen(table + row * row_bytes, width, to); });
  }
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* const table = data<T>(inputs[0]);
    look_up(count, width, rows, data<T>(outputs[0]),
            [&](std::int64_t row, T* to) { std::copy_n(table + row * width, width, to); });
  });
}

void run(CpuContext& /*context*/, const EmbeddingBackward& op, Inputs inputs, Outputs outputs) {
  const std::int64_t count = inputs[1].elements();
  const std::int64_t width = inputs[2].dim(1);
  const TableRows table(op.name, inputs, 3, inputs[1], inputs[2].dim(0));
  const TokensById sorted = sort_by_id(count, table.ids());
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
      const std::int64_t place = table.row_of(sorted.places[static_cast<std::size_t>(sorted.run_begins[at])]);
      if (place < 0) continue;
      T* const row = gradient + place * width;
      for (std::int64_t i = sorted.run_begins[at]; i < sorted.run_begins[at + 1]; ++i) {
        const std::int64_t token = sorted.places[static_cast<std::size_t>(i)];
        loops.add(width, row, dy + token * width, row);
      }
    }
  });
}

}  // namespace maxtext
