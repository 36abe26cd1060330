// Loops and the slices that they read and write, in StableHLO text.
#include <algorithm>

#include "base/error.h"
#include "engines/xla/stablehlo_writer.h"

namespace maxtext {
namespace {

std::string names_of(std::span<const XlaValue> values) {
  std::string names;
  for (const XlaValue& value : values) names += (names.empty() ? "" : ", ") + value.name;
  return names;
}

std::string types_of(std::span<const XlaValue> values) {
  std::string types;
  for (const XlaValue& value : values) types += (types.empty() ? "" : ", ") + type_text(value.spec);
  return types;
}

void require_starts(std::string_view op, const XlaValue& x, std::span<const XlaValue> starts) {
  const auto integer_scalar = [&](const XlaValue& start) {
    return start.spec.shape.empty() && start.spec.dtype == starts.front().spec.dtype && !is_floating(start.spec.dtype);
  };
  if (starts.size() == x.spec.shape.size() && std::all_of(starts.begin(), starts.end(), integer_scalar)) return;
  fail("StableHLO {}({}): expected one integer scalar of one dtype per dimension, got ({})", op, to_string(x.spec),
       types_of(starts));
}

bool lies_within(const Shape& box, const Shape& whole) {
  if (box.size() != whole.size()) return false;
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (box[i] > whole[i]) return false;
  }
  return true;
}

}  // namespace

XlaValue StableHloWriter::dynamic_slice(const XlaValue& x, std::span<const XlaValue> starts, const Shape& sizes) {
  require_starts("dynamic_slice", x, starts);
  if (!lies_within(sizes, x.spec.shape)) {
    fail("StableHLO dynamic_slice({}): a box of {} does not lie within it", to_string(x.spec), to_string(sizes));
  }
  const TensorSpec result{sizes, x.spec.dtype};
  return emit(result,
              fmt::format("stablehlo.dynamic_slice {}, {}, sizes = {} : ({}, {}) -> {}", x.name, names_of(starts),
                          list_text(sizes), type_text(x.spec), types_of(starts), type_text(result)));
}

XlaValue StableHloWriter::dynamic_update_slice(const XlaValue& base, const XlaValue& update,
                                               std::span<const XlaValue> starts) {
  require_starts("dynamic_update_slice", base, starts);
  if (base.spec.dtype != update.spec.dtype || !lies_within(update.spec.shape, base.spec.shape)) {
    fail("StableHLO dynamic_update_slice({}, {}): the update does not lie within the base", to_string(base.spec),
         to_string(update.spec));
  }
  return emit(base.spec, fmt::format("stablehlo.dynamic_update_slice {}, {}, {} : ({}, {}, {}) -> {}", base.name,
                                     update.name, names_of(starts), type_text(base.spec), type_text(update.spec),
                                     types_of(starts), type_text(base.spec)));
}

XlaValue StableHloWriter::block_argument(const TensorSpec& spec) { return {fmt::format("%b{}", next_++), spec}; }

/// The language has no operation that does nothing; this one falls away when a program is compiled.
void StableHloWriter::alias(const XlaValue& name, const XlaValue& value) {
  body_ += fmt::format("  {} = stablehlo.reshape {} : ({}) -> {}\n", name.name, value.name, type_text(value.spec),
                       type_text(name.spec));
}

std::string StableHloWriter::region(const std::function<void()>& write) {
  std::string lines;
  body_.swap(lines);
  try {
    write();
  } catch (...) {
    body_.swap(lines);
    throw;
  }
  body_.swap(lines);
  return lines;
}

std::vector<XlaValue> StableHloWriter::while_operation(const WhileParts& parts) {
  const std::size_t count = parts.initial.size();
  if (parts.condition.spec != TensorSpec{{}, DType::boolean}) {
    fail("StableHLO while: its condition is {}, not one boolean", to_string(parts.condition.spec));
  }
  if (count == 0 || parts.arguments.size() != count || parts.results.size() != count) {
    fail("StableHLO while: {} values go in, its body knows {} and returns {}", count, parts.arguments.size(),
         parts.results.size());
  }
  std::string bindings;
  std::vector<XlaValue> last;
  const std::string name = fmt::format("%{}", next_++);
  for (std::size_t i = 0; i < count; ++i) {
    if (parts.results[i].spec != parts.initial[i].spec || parts.arguments[i].spec != parts.initial[i].spec) {
      fail("StableHLO while: value {} is {} at first and {} after its body", i, to_string(parts.initial[i].spec),
           to_string(parts.results[i].spec));
    }
    bindings += fmt::format("{}{} = {}", i == 0 ? "" : ", ", parts.arguments[i].name, parts.initial[i].name);
    last.push_back({fmt::format("{}#{}", name, i), parts.initial[i].spec});
  }
  const std::string types = types_of(parts.initial);
  body_ += fmt::format(
      "  {}:{} = stablehlo.while({}) : {}\n  cond {{\n{}  stablehlo.return {} : tensor<i1>\n  }} do {{\n{}"
      "  stablehlo.return {} : {}\n  }}\n",
      name, count, bindings, types, parts.condition_lines, parts.condition.name, parts.body_lines,
      names_of(parts.results), types);
  return last;
}

std::vector<XlaValue> StableHloWriter::while_loop(std::span<const XlaValue> initial, const Condition& condition,
                                                  const Body& body) {
  WhileParts parts;
  parts.initial.assign(initial.begin(), initial.end());
  for (const XlaValue& value : initial) parts.arguments.push_back(block_argument(value.spec));
  parts.condition_lines = region([&] { parts.condition = condition(parts.arguments); });
  parts.body_lines = region([&] { parts.results = body(parts.arguments); });
  return while_operation(parts);
}

std::vector<XlaValue> StableHloWriter::for_loop(const XlaValue& begin, const XlaValue& end,
                                                std::span<const XlaValue> initial, const CountedBody& body) {
  std::vector<XlaValue> carried = {begin};
  carried.insert(carried.end(), initial.begin(), initial.end());
  std::vector<XlaValue> last = while_loop(
      carried, [&](std::span<const XlaValue> values) { return compare("LT", values[0], end); },
      [&](std::span<const XlaValue> values) {
        std::vector<XlaValue> next = body(values[0], values.subspan(1));
        next.insert(next.begin(), binary("add", values[0], constant(begin.spec, 1)));
        return next;
      });
  last.erase(last.begin());
  return last;
}

}  // namespace maxtext
