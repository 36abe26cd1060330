// Writes the body of a StableHLO function, one line per operation, and checks types while it writes: a mistake is an
// Error at the op that made it, not a parse error at line 412 of a compiler's input. Values are immutable (SSA).
// Operations are those of the StableHLO specification; only what the ops need is here.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/xla/stablehlo_types.h"

namespace maxtext {

/// A value of the program: its SSA name ("%12", "%arg0") and type.
struct XlaValue {
  std::string name;
  TensorSpec spec;

  bool defined() const { return !name.empty(); }
};

/// Dimension numbers of a product: lhs and rhs dimensions pair up. The result has the batch dimensions first, then the
/// free ones of lhs, then those of rhs.
struct DotDimensions {
  std::vector<std::int64_t> lhs_batch = {};
  std::vector<std::int64_t> rhs_batch = {};
  std::vector<std::int64_t> lhs_contracting = {};
  std::vector<std::int64_t> rhs_contracting = {};
};

class StableHloWriter {
 public:
  /// Every element `value`.
  XlaValue constant(const TensorSpec& spec, double value);
  /// A vector of given elements.
  XlaValue constant_vector(std::span<const double> values, DType dtype);
  /// The index along `dimension`.
  XlaValue iota(const TensorSpec& spec, std::int64_t dimension);

  /// Elementwise, operands of one type: "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum",
  /// "and"; of integers also "shift_left", "shift_right_arithmetic".
  XlaValue binary(std::string_view op, const XlaValue& a, const XlaValue& b);
  /// Elementwise: "exponential", "log", "sqrt", "rsqrt", "cosine", "sine", "tanh", "logistic", "negate".
  XlaValue unary(std::string_view op, const XlaValue& x);
  /// -> boolean: "EQ", "NE", "LT", "LE", "GT", "GE".
  XlaValue compare(std::string_view direction, const XlaValue& a, const XlaValue& b);
  XlaValue select(const XlaValue& condition, const XlaValue& where_true, const XlaValue& where_false);
  XlaValue convert(const XlaValue& x, DType dtype);

  XlaValue reshape(const XlaValue& x, const Shape& shape);
  /// Dimension i of x becomes dimension dimensions[i] of the result.
  XlaValue broadcast(const XlaValue& x, const Shape& shape, const std::vector<std::int64_t>& dimensions);
  XlaValue transpose(const XlaValue& x, const std::vector<std::int64_t>& permutation);
  XlaValue slice(const XlaValue& x, const Shape& starts, const Shape& limits);
  XlaValue concatenate(std::span<const XlaValue> parts, std::int64_t dimension);
  /// base with `update` written at `starts`, which are known while tracing.
  XlaValue update_slice(const XlaValue& base, const XlaValue& update, const Shape& starts);
  /// The box of `sizes` of x that begins at `starts`, one integer scalar per dimension, computed by the program and
  /// moved so that the box lies within x.
  XlaValue dynamic_slice(const XlaValue& x, std::span<const XlaValue> starts, const Shape& sizes);
  /// base with `update` written there.
  XlaValue dynamic_update_slice(const XlaValue& base, const XlaValue& update, std::span<const XlaValue> starts);

  /// Rows of table [V, ...] at ids [...] -> [ids..., ...].
  XlaValue gather_rows(const XlaValue& table, const XlaValue& ids);
  /// table with rows [ids..., ...] added at ids.
  XlaValue scatter_add_rows(const XlaValue& table, const XlaValue& ids, const XlaValue& rows);

  /// base with `updates` written where the rows of `places` [..., n] say, one integer for each of n ascending
  /// `dimensions` of base: updates is [places' first dimensions..., base's other dimensions...]. Places outside of base
  /// are dropped; none may occur twice.
  XlaValue scatter_replace(const XlaValue& base, const XlaValue& places, const std::vector<std::int64_t>& dimensions,
                           const XlaValue& updates);

  /// A product, accumulated and returned in `result`, by default the dtype of lhs and rhs; bfloat16 operands with a
  /// float32 result are multiplied as they are and summed in float32. Compilers for TPU multiply float32 in bfloat16
  /// unless asked not to; this asks.
  XlaValue dot(const XlaValue& lhs, const XlaValue& rhs, const DotDimensions& dimensions,
               std::optional<DType> result = std::nullopt);
  /// "add" (from 0), "maximum" or "minimum" over `dimensions`, which fall away; an infinity or the last int32 stands
  /// for the maximum or minimum of nothing.
  XlaValue reduce(std::string_view op, const XlaValue& x, std::vector<std::int64_t> dimensions);

  /// Collectives among the replicas of each group, along dimension 0.
  XlaValue all_gather(const XlaValue& x, const std::vector<std::vector<int>>& groups);
  XlaValue reduce_scatter(const XlaValue& x, const std::vector<std::vector<int>>& groups);
  /// `op` as in `reduce`.
  XlaValue all_reduce(std::string_view op, const XlaValue& x, const std::vector<std::vector<int>>& groups);

  /// Runs `body` as long as `condition`, a boolean scalar, holds: both get the current values, first `initial`, and
  /// `body` returns the next ones, of the same types. Values of the surroundings may be used inside; values made inside
  /// exist there only. Returns the last values.
  using Condition = std::function<XlaValue(std::span<const XlaValue> values)>;
  using Body = std::function<std::vector<XlaValue>(std::span<const XlaValue> values)>;
  std::vector<XlaValue> while_loop(std::span<const XlaValue> initial, const Condition& condition, const Body& body);

  /// Runs `body(index, values)` for index = begin, begin + 1, …, end − 1, integer scalars of one dtype that the program
  /// computes.
  using CountedBody = std::function<std::vector<XlaValue>(const XlaValue& index, std::span<const XlaValue> values)>;
  std::vector<XlaValue> for_loop(const XlaValue& begin, const XlaValue& end, std::span<const XlaValue> initial,
                                 const CountedBody& body);

  /// The pieces of a loop whose carried values are only known once its body has been written: fresh names for the
  /// values inside, lines that do not go to the program yet, and the operation that joins them.
  XlaValue block_argument(const TensorSpec& spec);
  std::string region(const std::function<void()>& write);
  struct WhileParts {
    std::vector<XlaValue> arguments;  ///< names inside of condition and body
    std::vector<XlaValue> initial;
    std::string condition_lines;
    XlaValue condition;
    std::string body_lines;
    std::vector<XlaValue> results;  ///< of the body
  };
  std::vector<XlaValue> while_operation(const WhileParts& parts);
  /// Lets `name`, of a block_argument, stand for `value` from here on.
  void alias(const XlaValue& name, const XlaValue& value);

  /// The lines so far.
  const std::string& body() const { return body_; }

 private:
  XlaValue emit(TensorSpec result, const std::string& operation);

  std::string body_;
  std::int64_t next_ = 0;
};

}  // namespace maxtext
