#include "engines/xla/xla_context.h"

#include "base/error.h"

namespace maxtext {
namespace {

bool covers(const Tensor& tensor, const XlaStorage& storage) { return tensor.elements() == storage.spec().elements(); }

std::int64_t first_element(const Tensor& tensor) { return tensor.byte_offset() / dtype_size(tensor.dtype()); }

XlaValue current(StableHloWriter& writer, const XlaStorage& storage) {
  return storage.value().defined() ? storage.value() : writer.constant(storage.spec(), 0);
}

XlaValue flat(StableHloWriter& writer, const XlaValue& value) { return writer.reshape(value, {value.spec.elements()}); }

}  // namespace

XlaValue XlaContext::load(const Tensor& tensor) const {
  const XlaStorage& storage = xla_storage(tensor);
  XlaValue value = current(writer, storage);
  if (!covers(tensor, storage)) {
    const std::int64_t first = first_element(tensor);
    value = writer.slice(flat(writer, value), {first}, {first + tensor.elements()});
  }
  return writer.reshape(value, tensor.shape());
}

void XlaContext::store(const Tensor& tensor, const XlaValue& value) const {
  if (value.spec != tensor.spec()) {
    fail("xla: a value of {} cannot be stored in {}", to_string(value.spec), to_string(tensor.spec()));
  }
  XlaStorage& storage = xla_storage(tensor);
  if (covers(tensor, storage)) {
    storage.set_value(value);
    return;
  }
  storage.set_value(
      writer.update_slice(flat(writer, current(writer, storage)), flat(writer, value), {first_element(tensor)}));
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
