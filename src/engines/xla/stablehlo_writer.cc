#include "engines/xla/stablehlo_writer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace maxtext {
namespace {

void require(bool condition, std::string_view op, std::string_view expected,
             std::initializer_list<const XlaValue*> operands) {
  if (condition) return;
  std::string list;
  for (const XlaValue* operand : operands) list += (list.empty() ? "" : ", ") + to_string(operand->spec);
  fail("StableHLO {}({}): {}", op, list, expected);
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool is_dimension(std::int64_t dimension, const XlaValue& x) {
  return dimension >= 0 && dimension < static_cast<std::int64_t>(x.spec.shape.size());
}

/// " : (A, B) -> C".
std::string signature(std::initializer_list<const XlaValue*> operands, const TensorSpec& result) {
  std::string types;
  for (const XlaValue* operand : operands) types += (types.empty() ? "" : ", ") + type_text(operand->spec);
  return fmt::format(" : ({}) -> {}", types, type_text(result));
}

/// What a reduction of nothing is.
double reduction_start(std::string_view op, DType dtype) {
  if (op != "maximum" && op != "minimum") return 0;
  using Limits = std::numeric_limits<std::int32_t>;
  if (dtype == DType::int32) return op == "maximum" ? Limits::min() : Limits::max();
  const double infinity = std::numeric_limits<double>::infinity();
  return op == "maximum" ? -infinity : infinity;
}

/// The region of a reducing collective or a scatter.
std::string combiner(std::string_view op, DType dtype) {
  const std::string type = type_text({{}, dtype});
  return fmt::format(
      "({{\n    ^bb0(%left: {0}, %right: {0}):\n      %both = stablehlo.{1} %left, %right : {0}\n"
      "      stablehlo.return %both : {0}\n  }})",
      type, op);
}

}  // namespace

XlaValue StableHloWriter::emit(TensorSpec result, const std::string& operation) {
  XlaValue value{fmt::format("%{}", next_++), result};
  body_ += fmt::format("  {} = {}\n", value.name, operation);
  return value;
}

XlaValue StableHloWriter::constant(const TensorSpec& spec, double value) {
  return emit(spec, fmt::format("stablehlo.constant dense<{}> : {}", literal(value, spec.dtype), type_text(spec)));
}

XlaValue StableHloWriter::constant_vector(std::span<const double> values, DType dtype) {
  std::vector<std::string> literals;
  for (const double value : values) literals.push_back(literal(value, dtype));
  const TensorSpec spec{{static_cast<std::int64_t>(values.size())}, dtype};
  return emit(spec, fmt::format("stablehlo.constant dense<[{}]> : {}", fmt::join(literals, ", "), type_text(spec)));
}

XlaValue StableHloWriter::iota(const TensorSpec& spec, std::int64_t dimension) {
  const XlaValue result{"", spec};
  require(is_dimension(dimension, result), "iota", "the dimension must exist", {&result});
  return emit(spec, fmt::format("stablehlo.iota dim = {} : {}", dimension, type_text(spec)));
}

XlaValue StableHloWriter::binary(std::string_view op, const XlaValue& a, const XlaValue& b) {
  require(a.spec == b.spec, op, "both operands must have one type", {&a, &b});
  return emit(a.spec, fmt::format("stablehlo.{} {}, {} : {}", op, a.name, b.name, type_text(a.spec)));
}

XlaValue StableHloWriter::unary(std::string_view op, const XlaValue& x) {
  require(is_floating(x.spec.dtype), op, "the operand must be floating-point", {&x});
  return emit(x.spec, fmt::format("stablehlo.{} {} : {}", op, x.name, type_text(x.spec)));
}

XlaValue StableHloWriter::compare(std::string_view direction, const XlaValue& a, const XlaValue& b) {
  require(a.spec == b.spec, "compare", "both operands must have one type", {&a, &b});
  const TensorSpec result{a.spec.shape, DType::boolean};
  return emit(result, fmt::format("stablehlo.compare {}, {}, {}, {}{}", direction, a.name, b.name,
                                  is_floating(a.spec.dtype) ? "FLOAT" : "SIGNED", signature({&a, &b}, result)));
}

XlaValue StableHloWriter::select(const XlaValue& condition, const XlaValue& where_true, const XlaValue& where_false) {
  require(where_true.spec == where_false.spec && condition.spec == TensorSpec{where_true.spec.shape, DType::boolean},
          "select", "expected a boolean of the shape of two operands of one type",
          {&condition, &where_true, &where_false});
  return emit(where_true.spec, fmt::format("stablehlo.select {}, {}, {} : {}, {}", condition.name, where_true.name,
                                           where_false.name, type_text(condition.spec), type_text(where_true.spec)));
}

XlaValue StableHloWriter::convert(const XlaValue& x, DType dtype) {
  if (x.spec.dtype == dtype) return x;
  const TensorSpec result{x.spec.shape, dtype};
  return emit(result, fmt::format("stablehlo.convert {}{}", x.name, signature({&x}, result)));
}

XlaValue StableHloWriter::reshape(const XlaValue& x, const Shape& shape) {
  if (x.spec.shape == shape) return x;
  require(element_count(shape) == x.spec.elements(), "reshape", "to " + to_string(shape) + " changes the elements",
          {&x});
  const TensorSpec result{shape, x.spec.dtype};
  return emit(result, fmt::format("stablehlo.reshape {}{}", x.name, signature({&x}, result)));
}

XlaValue StableHloWriter::broadcast(const XlaValue& x, const Shape& shape,
                                    const std::vector<std::int64_t>& dimensions) {
  const XlaValue result{"", {shape, x.spec.dtype}};
  bool fits = dimensions.size() == x.spec.shape.size();
  for (std::size_t i = 0; fits && i < dimensions.size(); ++i) {
    fits = is_dimension(dimensions[i], result) && (x.spec.shape[i] == 1 || x.spec.shape[i] == shape[at(dimensions[i])]);
  }
  require(fits, "broadcast", "does not fit " + to_string(shape) + " at dimensions " + list_text(dimensions), {&x});
  return emit(result.spec, fmt::format("stablehlo.broadcast_in_dim {}, dims = {}{}", x.name, list_text(dimensions),
                                       signature({&x}, result.spec)));
}

XlaValue StableHloWriter::transpose(const XlaValue& x, const std::vector<std::int64_t>& permutation) {
  std::vector<std::int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool complete = sorted.size() == x.spec.shape.size();
  for (std::size_t i = 0; complete && i < sorted.size(); ++i) complete = sorted[i] == static_cast<std::int64_t>(i);
  require(complete, "transpose", list_text(permutation) + " does not name every dimension once", {&x});
  TensorSpec result{{}, x.spec.dtype};
  for (const std::int64_t dimension : permutation) result.shape.push_back(x.spec.shape[at(dimension)]);
  return emit(result, fmt::format("stablehlo.transpose {}, dims = {}{}", x.name, list_text(permutation),
                                  signature({&x}, result)));
}

XlaValue StableHloWriter::slice(const XlaValue& x, const Shape& starts, const Shape& limits) {
  bool fits = starts.size() == x.spec.shape.size() && limits.size() == starts.size();
  TensorSpec result = x.spec;
  std::string ranges;
  for (std::size_t i = 0; fits && i < starts.size(); ++i) {
    fits = starts[i] >= 0 && starts[i] <= limits[i] && limits[i] <= x.spec.shape[i];
    result.shape[i] = limits[i] - starts[i];
    ranges += fmt::format("{}{}:{}", i == 0 ? "" : ", ", starts[i], limits[i]);
  }
  require(fits, "slice", "from " + to_string(starts) + " to " + to_string(limits) + " does not lie within it", {&x});
  return emit(result, fmt::format("stablehlo.slice {} [{}]{}", x.name, ranges, signature({&x}, result)));
}

XlaValue StableHloWriter::concatenate(std::span<const XlaValue> parts, std::int64_t dimension) {
  if (parts.empty()) fail("StableHLO concatenate: needs at least one operand");
  const XlaValue& first = parts.front();
  require(is_dimension(dimension, first), "concatenate", "the dimension must exist", {&first});
  if (parts.size() == 1) return first;
  TensorSpec result = first.spec;
  result.shape[at(dimension)] = 0;
  std::string names;
  std::string types;
  for (const XlaValue& part : parts) {
    TensorSpec expected = first.spec;
    if (part.spec.shape.size() == expected.shape.size()) {
      expected.shape[at(dimension)] = part.spec.shape[at(dimension)];
    }
    require(part.spec == expected, "concatenate", "operands may differ along the dimension only", {&first, &part});
    result.shape[at(dimension)] += part.spec.shape[at(dimension)];
    names += (names.empty() ? "" : ", ") + part.name;
    types += (types.empty() ? "" : ", ") + type_text(part.spec);
  }
  return emit(result, fmt::format("stablehlo.concatenate {}, dim = {} : ({}) -> {}", names, dimension, types,
                                  type_text(result)));
}

XlaValue StableHloWriter::update_slice(const XlaValue& base, const XlaValue& update, const Shape& starts) {
  bool fits = base.spec.dtype == update.spec.dtype && starts.size() == base.spec.shape.size() &&
              update.spec.shape.size() == starts.size();
  for (std::size_t i = 0; fits && i < starts.size(); ++i) {
    fits = starts[i] >= 0 && starts[i] + update.spec.shape[i] <= base.spec.shape[i];
  }
  require(fits, "dynamic_update_slice", "the update at " + to_string(starts) + " does not lie within the base",
          {&base, &update});
  std::string names = base.name + ", " + update.name;
  std::string types = type_text(base.spec) + ", " + type_text(update.spec);
  for (const std::int64_t start : starts) {
    const XlaValue index = constant({{}, DType::int64}, static_cast<double>(start));
    names += ", " + index.name;
    types += ", " + type_text(index.spec);
  }
  return emit(base.spec,
              fmt::format("stablehlo.dynamic_update_slice {} : ({}) -> {}", names, types, type_text(base.spec)));
}

XlaValue StableHloWriter::gather_rows(const XlaValue& table, const XlaValue& ids) {
  require(!table.spec.shape.empty() && !is_floating(ids.spec.dtype), "gather", "expected a table [V, ...] and integers",
          {&table, &ids});
  const auto id_rank = static_cast<std::int64_t>(ids.spec.shape.size());
  TensorSpec result{ids.spec.shape, table.spec.dtype};
  std::vector<std::int64_t> offsets;
  Shape sizes = table.spec.shape;
  sizes[0] = 1;
  for (std::size_t i = 1; i < table.spec.shape.size(); ++i) {
    offsets.push_back(static_cast<std::int64_t>(result.shape.size()));
    result.shape.push_back(table.spec.shape[i]);
  }
  return emit(result,
              fmt::format("\"stablehlo.gather\"({}, {}) {{dimension_numbers = #stablehlo.gather<offset_dims = {}, "
                          "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = {}>, "
                          "indices_are_sorted = false, slice_sizes = array<i64: {}>}}{}",
                          table.name, ids.name, list_text(offsets), id_rank, fmt::join(sizes, ", "),
                          signature({&table, &ids}, result)));
}

XlaValue StableHloWriter::scatter_add_rows(const XlaValue& table, const XlaValue& ids, const XlaValue& rows) {
  TensorSpec expected{ids.spec.shape, table.spec.dtype};
  std::vector<std::int64_t> windows;
  for (std::size_t i = 1; i < table.spec.shape.size(); ++i) {
    windows.push_back(static_cast<std::int64_t>(expected.shape.size()));
    expected.shape.push_back(table.spec.shape[i]);
  }
  require(!table.spec.shape.empty() && rows.spec == expected, "scatter",
          "expected a table [V, ...], ids, [ids..., ...]", {&table, &ids, &rows});
  return emit(table.spec,
              fmt::format("\"stablehlo.scatter\"({}, {}, {}) {} {{scatter_dimension_numbers = "
                          "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [0], "
                          "scatter_dims_to_operand_dims = [0], index_vector_dim = {}>, indices_are_sorted = false, "
                          "unique_indices = false}}{}",
                          table.name, ids.name, rows.name, combiner("add", table.spec.dtype), list_text(windows),
                          ids.spec.shape.size(), signature({&table, &ids, &rows}, table.spec)));
}

XlaValue StableHloWriter::reduce(std::string_view op, const XlaValue& x, std::vector<std::int64_t> dimensions) {
  TensorSpec result{{}, x.spec.dtype};
  std::sort(dimensions.begin(), dimensions.end());
  for (const std::int64_t dimension : dimensions) {
    require(is_dimension(dimension, x), "reduce", "dimensions " + list_text(dimensions) + " must exist", {&x});
  }
  for (std::size_t i = 0; i < x.spec.shape.size(); ++i) {
    const bool falls = std::binary_search(dimensions.begin(), dimensions.end(), static_cast<std::int64_t>(i));
    if (!falls) result.shape.push_back(x.spec.shape[i]);
  }
  const XlaValue initial = constant({{}, x.spec.dtype}, reduction_start(op, x.spec.dtype));
  return emit(result, fmt::format("stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = {}{}", x.name,
                                  initial.name, op, list_text(dimensions), signature({&x, &initial}, result)));
}

XlaValue StableHloWriter::all_gather(const XlaValue& x, const std::vector<std::vector<int>>& groups) {
  require(!x.spec.shape.empty(), "all_gather", "a scalar has no dimension to gather along", {&x});
  const std::string groups_text = replica_groups_text(groups);
  TensorSpec result = x.spec;
  result.shape[0] *= static_cast<std::int64_t>(groups.front().size());
  return emit(result, fmt::format("\"stablehlo.all_gather\"({}) {{all_gather_dim = 0 : i64, replica_groups = {}}}{}",
                                  x.name, groups_text, signature({&x}, result)));
}

XlaValue StableHloWriter::reduce_scatter(const XlaValue& x, const std::vector<std::vector<int>>& groups) {
  const std::string groups_text = replica_groups_text(groups);
  const auto size = static_cast<std::int64_t>(groups.front().size());
  require(!x.spec.shape.empty() && x.spec.shape[0] % size == 0, "reduce_scatter",
          "the first dimension must divide by the group size", {&x});
  TensorSpec result = x.spec;
  result.shape[0] /= size;
  return emit(result,
              fmt::format("\"stablehlo.reduce_scatter\"({}) {} {{scatter_dimension = 0 : i64, replica_groups = {}}}{}",
                          x.name, combiner("add", x.spec.dtype), groups_text, signature({&x}, result)));
}

XlaValue StableHloWriter::all_reduce(std::string_view op, const XlaValue& x,
                                     const std::vector<std::vector<int>>& groups) {
  return emit(x.spec, fmt::format("\"stablehlo.all_reduce\"({}) {} {{replica_groups = {}}}{}", x.name,
                                  combiner(op, x.spec.dtype), replica_groups_text(groups), signature({&x}, x.spec)));
}

}  // namespace maxtext
