#include "engines/xla/xla_context.h"

#include <algorithm>

#include "base/error.h"

namespace maxtext {
namespace {

std::int64_t first_element(const Tensor& tensor) { return tensor.byte_offset() / dtype_size(tensor.dtype()); }

XlaValue flat(StableHloWriter& writer, const XlaValue& value) { return writer.reshape(value, {value.spec.elements()}); }

/// `elements` of x, as [elements], from `first` on in row-major order.
XlaValue part_of(StableHloWriter& writer, const XlaValue& x, std::int64_t first, std::int64_t elements) {
  if (first == 0 && elements == x.spec.elements()) return flat(writer, x);
  return writer.slice(flat(writer, x), {first}, {first + elements});
}

/// x with `part` written from `first` on; in the shape of x.
XlaValue with_part(StableHloWriter& writer, const XlaValue& x, std::int64_t first, const XlaValue& part) {
  if (part.spec.elements() == x.spec.elements()) return writer.reshape(part, x.spec.shape);
  return writer.reshape(writer.update_slice(flat(writer, x), flat(writer, part), {first}), x.spec.shape);
}

/// Whether a tensor is whole rows of its memory's first dimension: such are cut out of it, and written to it, in the
/// shape that it has. Accelerators store a flat one in another layout, so that going through it copies all of it.
bool is_whole_rows(const Tensor& tensor, const XlaValue& memory) {
  if (memory.spec.shape.empty() || memory.spec.elements() == 0) return false;
  const std::int64_t row = memory.spec.elements() / memory.spec.shape[0];
  return tensor.elements() > 0 && first_element(tensor) % row == 0 && tensor.elements() % row == 0;
}

/// The box of the rows of `memory` that a tensor of whole rows is: where it begins, and where it ends.
struct Box {
  Shape starts;
  Shape limits;
};

Box rows_box(const Tensor& tensor, const XlaValue& memory) {
  const std::int64_t row = memory.spec.elements() / memory.spec.shape[0];
  Box box{.starts = memory.spec.shape, .limits = memory.spec.shape};
  std::fill(box.starts.begin(), box.starts.end(), 0);
  box.starts[0] = first_element(tensor) / row;
  box.limits[0] = box.starts[0] + tensor.elements() / row;
  return box;
}

XlaValue rows_of(StableHloWriter& writer, const XlaValue& memory, const Tensor& tensor) {
  const Box box = rows_box(tensor, memory);
  return writer.slice(memory, box.starts, box.limits);
}

XlaValue with_rows(StableHloWriter& writer, const XlaValue& memory, const Tensor& tensor, const XlaValue& value) {
  const Box box = rows_box(tensor, memory);
  Shape sizes = box.limits;
  sizes[0] -= box.starts[0];
  return writer.update_slice(memory, writer.reshape(value, sizes), box.starts);
}

/// A tensor within one row of a stack, seen from a loop: the row depends on the iteration.
struct StackRow {
  XlaStorage& storage;
  std::int64_t row = 0;
  std::int64_t first = 0;  ///< element of the row
  Shape row_shape;         ///< with a leading 1

  std::int64_t row_elements() const { return element_count(row_shape); }
};

StackRow stack_row(const Tensor& tensor) {
  XlaStorage& storage = xla_storage(tensor);
  StackRow place{.storage = storage, .row = 0, .first = 0, .row_shape = storage.spec().shape};
  place.row_shape[0] = 1;
  const std::int64_t first = first_element(tensor);
  place.row = first / place.row_elements();
  place.first = first % place.row_elements();
  if (place.first + tensor.elements() > place.row_elements()) {
    fail("xla: {} inside a loop does not lie in one row of a stack {}", to_string(tensor.spec()),
         to_string(storage.spec()));
  }
  return place;
}

std::vector<XlaValue> row_starts(XlaTrace& trace, const StackRow& place) {
  std::vector<XlaValue> starts = {trace.loop_row(place.row)};
  const std::size_t rank = place.row_shape.size();
  if (rank > 1) starts.resize(rank, trace.writer().constant(starts[0].spec, 0));
  return starts;
}

XlaValue load_row(XlaTrace& trace, const StackRow& place) {
  return trace.writer().dynamic_slice(trace.value(place.storage), row_starts(trace, place), place.row_shape);
}

bool in_stack_of_loop(const XlaTrace& trace, const XlaStorage& storage) {
  return trace.in_loop() && storage.is_stack && storage.made_in_loop == 0;
}

}  // namespace

XlaValue XlaContext::load(const Tensor& tensor) const {
  XlaStorage& storage = xla_storage(tensor);
  if (in_stack_of_loop(trace, storage)) {
    const StackRow place = stack_row(tensor);
    const XlaValue row = load_row(trace, place);
    return writer.reshape(part_of(writer, row, place.first, tensor.elements()), tensor.shape());
  }
  if (const XlaValue part = trace.part(storage, first_element(tensor), tensor.elements()); part.defined()) {
    return writer.reshape(part, tensor.shape());
  }
  const XlaValue value = trace.value(storage);
  if (tensor.elements() == value.spec.elements()) return writer.reshape(value, tensor.shape());
  if (is_whole_rows(tensor, value)) return writer.reshape(rows_of(writer, value, tensor), tensor.shape());
  return writer.reshape(part_of(writer, value, first_element(tensor), tensor.elements()), tensor.shape());
}

void XlaContext::store(const Tensor& tensor, const XlaValue& value) const {
  if (value.spec != tensor.spec()) {
    fail("xla: a value of {} cannot be stored in {}", to_string(value.spec), to_string(tensor.spec()));
  }
  XlaStorage& storage = xla_storage(tensor);
  if (in_stack_of_loop(trace, storage)) {
    const StackRow place = stack_row(tensor);
    const bool whole_row = tensor.elements() == place.row_elements();
    const XlaValue row = whole_row ? writer.reshape(value, place.row_shape)
                                   : with_part(writer, load_row(trace, place), place.first, value);
    trace.set_value(storage, writer.dynamic_update_slice(trace.value(storage), row, row_starts(trace, place)));
    return;
  }
  if (tensor.elements() == storage.spec().elements()) {
    trace.set_value(storage, value);
    return;
  }
  if (trace.set_part(storage, first_element(tensor), value)) return;
  const XlaValue before = trace.value(storage);
  trace.set_value(storage, is_whole_rows(tensor, before) ? with_rows(writer, before, tensor, value)
                                                         : with_part(writer, before, first_element(tensor), value));
}

std::vector<std::vector<int>> XlaContext::groups(AxisSet axes) const {
  std::vector<std::vector<int>> groups;
  for (int device = 0; device < mesh.device_count(); ++device) {
    // A group is listed where its first member is met.
    if (std::vector<int> group = mesh.group(device, axes); group.front() == device) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace maxtext
