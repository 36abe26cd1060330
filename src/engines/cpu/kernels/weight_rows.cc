// Compiled once per instruction set; see vec.h.
//
// Cost model: a weight is read once, and memory is what it costs. One core reads 5 to 6 bytes a cycle, while a step of
// two vectors takes, per row of weight and of x, two FMAs, and two more instructions to widen bfloat16: an eighth of
// the time with AVX-512, a quarter with AVX2. So one chain of sums per element is enough, four rows of weight at a time
// hide its latency, and these four are walked a quarter of the thread's rows apart: hardware prefetchers follow four
// long streams, where four adjacent short rows share pages and are fetched late (measured elsewhere: 47-82% of the read
// bandwidth against 91-99%, bfloat16).
#include "engines/cpu/kernels/weight_rows.h"

#include "engines/cpu/kernels/widen.h"

namespace maxtext::MAXTEXT_ISA {
namespace {

/// Rows of weight walked together.
constexpr int streams = 4;
/// Rows of x walked together: sums, a step of x and of one row of weight fit the registers.
constexpr int x_rows = vector_registers == 32 ? 4 : 2;

static_assert(packed_row_step % pair_lanes == 0);

template <typename Row>
const typename Row::Stored* elements(const std::byte* from) {
  return reinterpret_cast<const typename Row::Stored*>(from);
}

/// A pair of vectors of x in the order in which Row widens a weight's.
template <typename Row, int... i>
[[gnu::always_inline]] inline void pack_pair(const float* x, float* to, std::integer_sequence<int, i...>) {
  const Vec<float> first = load(x);
  const Vec<float> second = load(x + lanes<float>);
  store(to, Row::paired ? __builtin_shufflevector(first, second, (2 * i)...) : first);
  store(to + lanes<float>, Row::paired ? __builtin_shufflevector(first, second, (2 * i + 1)...) : second);
}

template <typename Row>
void pack_row(const float* x, std::int64_t depth, float* to) {
  constexpr auto in_order = std::make_integer_sequence<int, lanes<float>>{};
  const std::int64_t padded = (depth + packed_row_step - 1) / packed_row_step * packed_row_step;
  std::int64_t k = 0;
  for (; k + pair_lanes <= depth; k += pair_lanes) pack_pair<Row>(x + k, to + k, in_order);
  for (; k < padded; k += pair_lanes) {
    alignas(64) float rest[pair_lanes] = {};
    for (std::int64_t j = 0; k + j < depth && j < pair_lanes; ++j) rest[j] = x[k + j];
    pack_pair<Row>(rest, to + k, in_order);
  }
}

/// sum += weight · x for one pair of vectors of all rows.
template <int R>
[[gnu::always_inline]] inline void add_pair(const Pair (&xs)[R], Pair weight, Vec<float> (&sum)[R]) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    sum[r] = multiply_add(weight.a, xs[r].a, sum[r]);
    sum[r] = multiply_add(weight.b, xs[r].b, sum[r]);
  }
}

template <int R>
[[gnu::always_inline]] inline void load_x(const float* x, std::int64_t x_stride, Pair (&xs)[R]) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) xs[r] = {load(x + r * x_stride), load(x + r * x_stride + lanes<float>)};
}

/// What is left of the rows after whole pairs; nothing beyond the rows is read.
template <typename Row, int R>
[[gnu::noinline]] void add_rest(const typename Row::Stored* const (&weight)[streams], std::int64_t rest, const float* x,
                                std::int64_t x_stride, Vec<float> (&sum)[streams][R]) {
  Pair xs[R];
  load_x(x, x_stride, xs);
  for (int s = 0; s < streams; ++s) add_pair(xs, load_tail<Row>(weight[s], rest), sum[s]);
}

/// Rows [row, row + R) of x against four outputs.
template <typename Row, int R>
void multiply_group(const FewRowsProduct& p, const std::int64_t (&outputs)[streams], std::int64_t row) {
  const typename Row::Stored* weight[streams];
  for (int s = 0; s < streams; ++s) weight[s] = elements<Row>(p.weight) + outputs[s] * p.depth;
  const float* x = p.x + row * p.packed_depth;
  Vec<float> sum[streams][R] = {};
  std::int64_t k = 0;
  for (; k + pair_lanes <= p.depth; k += pair_lanes, x += pair_lanes) {
    Pair xs[R];
    load_x(x, p.packed_depth, xs);
#pragma GCC unroll 4
    for (int s = 0; s < streams; ++s) {
      add_pair(xs, Row::load_pair(weight[s]), sum[s]);
      weight[s] += pair_lanes;
    }
  }
  if (k < p.depth) add_rest<Row, R>(weight, p.depth - k, x, p.packed_depth, sum);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int s = 0; s < streams; ++s) p.y[(row + r) * p.outputs + outputs[s]] = reduce_add<float>(sum[s][r]);
  }
}

/// All rows of x against four outputs: beyond the first x_rows the weight comes from the cache.
template <typename Row>
[[gnu::always_inline]] inline void multiply_rows(const FewRowsProduct& p, const std::int64_t (&outputs)[streams]) {
  std::int64_t row = 0;
  for (; row + x_rows <= p.rows; row += x_rows) multiply_group<Row, x_rows>(p, outputs, row);
  if constexpr (x_rows > 2) {
    for (; row + 2 <= p.rows; row += 2) multiply_group<Row, 2>(p, outputs, row);
  }
  for (; row < p.rows; ++row) multiply_group<Row, 1>(p, outputs, row);
}

template <typename Row>
void multiply(const FewRowsProduct& p, std::int64_t first, std::int64_t last) {
  const std::int64_t apart = (last - first) / streams;
  for (std::int64_t output = first; output < first + apart; ++output) {
    multiply_rows<Row>(p, {output, output + apart, output + 2 * apart, output + 3 * apart});
  }
  const std::int64_t rest = first + streams * apart;
  if (rest == last) return;
  // Fewer than four: the last one fills up, and is computed alike.
  const auto at = [last](std::int64_t output) { return output < last ? output : last - 1; };
  multiply_rows<Row>(p, {rest, at(rest + 1), at(rest + 2), last - 1});
}

template <typename Row, int... i>
[[gnu::always_inline]] inline void store_in_order(Pair pair, float* to, std::integer_sequence<int, i...>) {
  if constexpr (Row::paired) {
    store(to, __builtin_shufflevector(pair.a, pair.b, place_in_pair<true>(i)...));
    store(to + lanes<float>, __builtin_shufflevector(pair.a, pair.b, place_in_pair<true>(lanes<float> + i)...));
  } else {
    store(to, pair.a);
    store(to + lanes<float>, pair.b);
  }
}

template <typename Row>
void widen(const std::byte* from, std::int64_t count, float* to) {
  constexpr auto in_order = std::make_integer_sequence<int, lanes<float>>{};
  const typename Row::Stored* row = elements<Row>(from);
  std::int64_t i = 0;
  for (; i + pair_lanes <= count; i += pair_lanes) store_in_order<Row>(Row::load_pair(row + i), to + i, in_order);
  if (i == count) return;
  alignas(64) float last[pair_lanes];
  store_in_order<Row>(load_tail<Row>(row + i, count - i), last, in_order);
  for (std::int64_t j = 0; i + j < count; ++j) to[i + j] = last[j];
}

template <typename Row>
constexpr WeightRows all_of() {
  return {pack_row<Row>, multiply<Row>, widen<Row>};
}

}  // namespace

const WeightRows* weight_rows_of(DType stored);
const WeightRows* weight_rows_of(DType stored) {
  static constexpr WeightRows float32 = all_of<Float32Row>();
  static constexpr WeightRows bfloat16 = all_of<BFloat16Row>();
  static constexpr WeightRows float16 = all_of<Float16Row>();
  switch (stored) {
    case DType::float32:
      return &float32;
    case DType::bfloat16:
      return &bfloat16;
    case DType::float16:
      return &float16;
    default:
      return nullptr;
  }
}

}  // namespace maxtext::MAXTEXT_ISA
