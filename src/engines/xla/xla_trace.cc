#include "engines/xla/xla_trace.h"

#include <algorithm>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr TensorSpec index_spec() { return {{}, DType::int32}; }

/// The greatest of a range that is not empty.
std::int64_t last_of(const LoopRange& range) {
  return range.begin + (range.end - 1 - range.begin) / range.step * range.step;
}

}  // namespace

bool XlaTrace::is_fresh(const XlaStorage& storage) const {
  return !storage.value.defined() && storage.buffer == nullptr && storage.host.empty() && !storage.is_state &&
         !storage.is_stack && storage.made_in_loop == loop_number();
}

XlaValue XlaTrace::part(XlaStorage& storage, std::int64_t first, std::int64_t elements) {
  if (!is_fresh(storage)) return {};
  const auto found = storage.parts.find(first);
  if (found == storage.parts.end() || found->second.spec.elements() != elements) return {};
  return found->second;
}

bool XlaTrace::set_part(XlaStorage& storage, std::int64_t first, const XlaValue& value) {
  if (!is_fresh(storage)) return false;
  const std::int64_t end = first + value.spec.elements();
  for (const auto& [begin, part] : storage.parts) {
    const bool apart = end <= begin || begin + part.spec.elements() <= first;
    const bool same = begin == first && part.spec.elements() == value.spec.elements();
    if (!apart && !same) return false;
  }
  storage.parts[first] = value;
  storage.changed = true;
  return true;
}

void XlaTrace::join_parts(XlaStorage& storage) {
  std::vector<XlaValue> pieces;
  std::int64_t end = 0;
  const auto zeros_until = [&](std::int64_t first) {
    if (first > end) pieces.push_back(writer_.constant({{first - end}, storage.spec().dtype}, 0));
  };
  for (const auto& [first, part] : storage.parts) {
    zeros_until(first);
    pieces.push_back(writer_.reshape(part, {part.spec.elements()}));
    end = first + part.spec.elements();
  }
  zeros_until(storage.spec().elements());
  storage.parts.clear();
  storage.value = writer_.reshape(writer_.concatenate(pieces, 0), storage.spec().shape);
}

XlaValue XlaTrace::value_outside_of_loops(XlaStorage& storage) {
  if (storage.value.defined()) return storage.value;
  const bool has_contents = storage.buffer != nullptr || !storage.host.empty();
  // Zeros come with the lines that need them: inside of a loop's body they would be out of sight behind it.
  if (!has_contents && !storage.is_state) return {};
  storage.value = {fmt::format("%arg{}", arguments_.size()), storage.spec()};
  arguments_.push_back({storage.spec(), upload_(storage), storage.number()});
  return storage.value;
}

void XlaTrace::enter_loop(XlaStorage& storage) {
  if (storage.made_in_loop == loop_->number || loop_->of_storage.contains(storage.number())) return;
  if (storage.made_in_loop != 0) fail("xla: a tensor of one loop's body is used in another's");
  Crossing crossing{.storage = storage.shared_from_this(),
                    .outside = value_outside_of_loops(storage),
                    .inside = writer_.block_argument(storage.spec()),
                    .changed_outside = storage.changed};
  storage.value = crossing.inside;
  storage.changed = false;
  loop_->of_storage.emplace(storage.number(), loop_->crossings.size());
  loop_->crossings.push_back(std::move(crossing));
}

XlaValue XlaTrace::value(XlaStorage& storage) {
  if (!in_loop() && storage.made_in_loop != 0) fail("xla: a tensor of a loop's body is used after the loop");
  if (in_loop()) enter_loop(storage);
  if (!storage.parts.empty()) join_parts(storage);
  const XlaValue value = storage.value.defined() ? storage.value : value_outside_of_loops(storage);
  return value.defined() ? value : writer_.constant(storage.spec(), 0);
}

void XlaTrace::set_value(XlaStorage& storage, const XlaValue& value) {
  if (!in_loop() && storage.made_in_loop != 0) fail("xla: a tensor of a loop's body is written to after the loop");
  if (in_loop()) enter_loop(storage);
  storage.parts.clear();
  storage.value = writer_.reshape(value, storage.spec().shape);
  storage.changed = true;
}

std::int64_t XlaTrace::iterations() const {
  if (!in_loop()) return 1;
  return (last_of(loop_->range) - loop_->range.begin) / loop_->range.step + 1;
}

XlaValue XlaTrace::loop_row(std::int64_t row) {
  const std::int64_t ahead = row - loop_->range.begin;
  if (ahead == 0) return loop_->index;
  return writer_.binary("add", loop_->index, writer_.constant(index_spec(), static_cast<double>(ahead)));
}

void XlaTrace::loop(const LoopRange& range, XlaLiveStorages& live, const std::function<void(std::int64_t)>& body) {
  if (in_loop()) fail("xla: loops do not nest");
  if (range.begin >= range.end) return;
  // What the body might use has to be whole before it: inside, joining it would be out of sight behind the loop.
  for (const auto& [number, storage] : live.by_number) {
    if (!storage->parts.empty()) join_parts(*storage);
  }
  loop_.emplace(Loop{.number = ++loops_,
                     .range = range,
                     .index = writer_.block_argument(index_spec()),
                     .crossings = {},
                     .of_storage = {}});
  const auto constant = [&](std::int64_t x) { return writer_.constant(index_spec(), static_cast<double>(x)); };
  XlaValue condition;
  const std::string condition_lines = writer_.region([&] {
    condition = range.reverse ? writer_.compare("GE", loop_->index, constant(range.begin))
                              : writer_.compare("LE", loop_->index, constant(last_of(range)));
  });
  XlaValue next;
  std::string body_lines;
  try {
    body_lines = writer_.region([&] {
      body(range.begin);
      next = writer_.binary("add", loop_->index, constant(range.reverse ? -range.step : range.step));
    });
  } catch (...) {
    loop_.reset();
    broken_ = true;
    throw;
  }
  // What the body made cannot be read any more, also where somebody still holds it.
  for (const auto& [number, storage] : live.by_number) {
    if (storage->made_in_loop != loop_->number) continue;
    storage->value = {};
    storage->parts.clear();
  }
  close_loop(condition, condition_lines, next, std::move(body_lines));
}

void XlaTrace::close_loop(const XlaValue& condition, const std::string& condition_lines, const XlaValue& next,
                          std::string body_lines) {
  const Loop loop = std::move(*loop_);
  loop_.reset();
  StableHloWriter::WhileParts parts;
  parts.arguments.push_back(loop.index);
  parts.initial.push_back(
      writer_.constant(index_spec(), static_cast<double>(loop.range.reverse ? last_of(loop.range) : loop.range.begin)));
  parts.results.push_back(next);
  std::vector<const Crossing*> carried;
  for (const Crossing& crossing : loop.crossings) {
    const XlaValue outside =
        crossing.outside.defined() ? crossing.outside : writer_.constant(crossing.storage->spec(), 0);
    if (crossing.storage->changed) {
      carried.push_back(&crossing);
      parts.arguments.push_back(crossing.inside);
      parts.initial.push_back(outside);
      parts.results.push_back(crossing.storage->value);
    } else {
      // Never written to inside: one value for all iterations, under the name that the body knows it by.
      writer_.alias(crossing.inside, outside);
      crossing.storage->value = crossing.outside;
      crossing.storage->changed = crossing.changed_outside;
    }
  }
  parts.condition_lines = condition_lines;
  parts.condition = condition;
  parts.body_lines = std::move(body_lines);
  const std::vector<XlaValue> results = writer_.while_operation(parts);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    carried[i]->storage->value = results[i + 1];
    carried[i]->storage->changed = true;
  }
}

XlaProgram XlaTrace::finish(XlaLiveStorages& live, int replicas) {
  if (broken_) fail("xla: the program was broken off inside a loop");
  XlaProgram program;
  std::vector<std::string> names;
  std::vector<std::string> types;
  std::map<std::int64_t, std::size_t> result_of;
  for (const auto& [number, storage] : live.by_number) {
    if (!storage->changed || storage->made_in_loop != 0) continue;
    if (!storage->parts.empty()) join_parts(*storage);
    result_of.emplace(number, names.size());
    names.push_back(storage->value.name);
    types.push_back(type_text(storage->spec()));
    program.results.push_back(storage->spec());
  }
  std::string parameters;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& argument = arguments_[i];
    parameters += fmt::format("{}%arg{}: {}", i == 0 ? "" : ", ", i, type_text(argument.spec));
    const auto result = result_of.find(argument.storage);
    if (result != result_of.end()) parameters += fmt::format(" {{tf.aliasing_output = {} : i32}}", result->second);
    program.arguments.push_back(argument.buffer);
  }
  const std::string returned =
      names.empty() ? "" : fmt::format(" {} : {}", fmt::join(names, ", "), fmt::join(types, ", "));
  program.text = fmt::format(
      "module @device_program attributes {{mhlo.num_replicas = {} : i32, mhlo.num_partitions = 1 : i32}} {{\n"
      "func.func public @main({}) -> ({}) {{\n{}  return{}\n}}\n}}\n",
      replicas, parameters, fmt::join(types, ", "), writer_.body(), returned);
  return program;
}

}  // namespace maxtext
