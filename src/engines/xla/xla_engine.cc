#include "engines/xla/xla_engine.h"

#include <cstring>

#include "base/error.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

std::string argument_name(int argument) { return fmt::format("%arg{}", argument); }

void check_bytes(std::string_view what, const TensorSpec& spec, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) != spec.bytes()) {
    fail("{}: {} takes {} bytes, but {} were given", what, to_string(spec), spec.bytes(), bytes);
  }
}

/// The storage is an argument that the program has not written to.
bool is_unchanged_argument(const XlaStorage& storage) {
  return storage.argument() >= 0 && storage.value().name == argument_name(storage.argument());
}

const XlaValue& final_value(const Storage& storage) { return static_cast<const XlaStorage&>(storage).value(); }

}  // namespace

XlaEngine::XlaEngine(Mesh mesh, int device) : mesh_(mesh), device_(device), context_{writer_, mesh_} {
  if (device < 0 || device >= mesh_.device_count()) {
    fail("xla engine: device {} is not in a mesh of {}", device, mesh_.device_count());
  }
}

Tensor XlaEngine::allocate(const TensorSpec& spec) {
  return {spec, std::make_shared<XlaStorage>(spec, memory().track(spec.bytes()))};
}

Tensor XlaEngine::argument(const TensorSpec& spec) {
  Tensor tensor = allocate(spec);
  XlaStorage& storage = xla_storage(tensor);
  storage.set_argument(static_cast<int>(arguments_.size()));
  storage.set_value({argument_name(storage.argument()), spec});
  arguments_.push_back({spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes()))});
  return tensor;
}

Tensor XlaEngine::allocate_shard(const TensorSpec& spec, AxisSet axes) {
  return argument(shard_spec(spec, mesh_.size(axes)));
}

Tensor XlaEngine::input(const TensorSpec& spec, std::span<const std::byte> bytes) {
  check_bytes("input", spec, bytes.size());
  Tensor tensor = argument(spec);
  write(tensor, bytes);
  return tensor;
}

void XlaEngine::write(const Tensor& tensor, std::span<const std::byte> source) {
  if (!tensor.defined()) fail("write: the tensor is undefined");
  if (tensor.storage()->read_only()) fail("write: the memory of {} is borrowed", to_string(tensor.spec()));
  check_bytes("write", tensor.spec(), source.size());
  const XlaStorage& storage = xla_storage(tensor);
  if (storage.argument() < 0) fail("write: {} is inside the traced program, not an argument", to_string(tensor.spec()));
  if (!is_unchanged_argument(storage)) {
    fail("write: the traced program has changed argument {} already", storage.argument());
  }
  std::vector<std::byte>& bytes = arguments_[static_cast<std::size_t>(storage.argument())].bytes;
  if (!source.empty()) std::memcpy(bytes.data() + tensor.byte_offset(), source.data(), source.size());
}

void XlaEngine::add_result(const Tensor& tensor) {
  XlaStorage& storage = xla_storage(tensor);
  if (storage.result() >= 0) return;
  if (!storage.value().defined()) fail("xla: a result {} was never written", to_string(tensor.spec()));
  storage.set_result(static_cast<int>(result_storages_.size()));
  result_storages_.push_back(tensor.storage());
}

const std::vector<std::byte>& XlaEngine::host_copy(const Tensor& tensor) const {
  const XlaStorage& storage = xla_storage(tensor);
  if (is_unchanged_argument(storage)) return arguments_[static_cast<std::size_t>(storage.argument())].bytes;
  if (storage.result() < 0) fail("read: {} is not a result of the traced program", to_string(tensor.spec()));
  if (results_.empty()) fail("read: the traced program has not run yet");
  return results_[static_cast<std::size_t>(storage.result())].bytes;
}

void XlaEngine::read(const Tensor& tensor, std::span<std::byte> destination) {
  if (!tensor.defined()) fail("read: the tensor is undefined");
  check_bytes("read", tensor.spec(), destination.size());
  const std::vector<std::byte>& bytes = host_copy(tensor);
  if (!destination.empty()) std::memcpy(destination.data(), bytes.data() + tensor.byte_offset(), destination.size());
}

std::vector<TensorSpec> XlaEngine::result_specs() const {
  std::vector<TensorSpec> specs;
  for (const auto& storage : result_storages_) specs.push_back(final_value(*storage).spec);
  return specs;
}

void XlaEngine::set_results(std::vector<HostArray> results) {
  const std::vector<TensorSpec> expected = result_specs();
  if (results.size() != expected.size()) fail("xla: {} results where {} are expected", results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].spec != expected[i]) {
      fail("xla: result {} is {} where {} is expected", i, to_string(results[i].spec), to_string(expected[i]));
    }
    check_bytes("result", expected[i], results[i].bytes.size());
  }
  results_ = std::move(results);
}

std::string XlaEngine::module_text() const {
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    parameters.push_back(fmt::format("{}: {}", argument_name(static_cast<int>(i)), type_text(arguments_[i].spec)));
  }
  std::vector<std::string> names;
  std::vector<std::string> types;
  for (const auto& storage : result_storages_) {
    names.push_back(final_value(*storage).name);
    types.push_back(type_text(final_value(*storage).spec));
  }
  const std::string returned =
      names.empty() ? "" : fmt::format(" {} : {}", fmt::join(names, ", "), fmt::join(types, ", "));
  return fmt::format(
      "module @device_program attributes {{mhlo.num_replicas = {} : i32, mhlo.num_partitions = 1 : i32}} {{\n"
      "func.func public @main({}) -> ({}) {{\n{}  return{}\n}}\n}}\n",
      mesh_.device_count(), fmt::join(parameters, ", "), fmt::join(types, ", "), writer_.body(), returned);
}

void XlaEngine::execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  std::visit([&](const auto& concrete) { trace(context_, concrete, inputs, outputs); }, op);
}

}  // namespace maxtext
