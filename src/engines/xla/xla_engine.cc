#include "engines/xla/xla_engine.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

void check_bytes(std::string_view what, const TensorSpec& spec, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) != spec.bytes()) {
    fail("{}: {} takes {} bytes, but {} were given", what, to_string(spec), spec.bytes(), bytes);
  }
}

}  // namespace

XlaEngine::XlaEngine(Mesh mesh, int device, std::shared_ptr<XlaBackend> backend)
    : mesh_(mesh), device_(device), backend_(std::move(backend)) {
  if (device < 0 || device >= mesh_.device_count()) {
    fail("xla engine: device {} is not in a mesh of {}", device, mesh_.device_count());
  }
  begin_trace();
  backend_->join(device_);
}

XlaEngine::~XlaEngine() { backend_->leave(device_); }

void XlaEngine::begin_trace() {
  trace_ = std::make_unique<XlaTrace>([this](XlaStorage& storage) { return upload(storage); }, loops_);
}

Tensor XlaEngine::allocate_storage(const TensorSpec& spec) {
  return {spec, std::make_shared<XlaStorage>(spec, memory().track(spec.bytes()), live_)};
}

Tensor XlaEngine::allocate(const TensorSpec& spec) {
  Tensor tensor = allocate_storage(spec);
  xla_storage(tensor).made_in_loop = trace_->loop_number();
  return tensor;
}

Tensor XlaEngine::allocate_shard(const TensorSpec& spec, AxisSet axes) {
  return allocate_state(shard_spec(spec, mesh_.size(axes)));
}

Tensor XlaEngine::allocate_state(const TensorSpec& spec) {
  Tensor tensor = allocate_storage(spec);
  xla_storage(tensor).is_state = true;
  return tensor;
}

std::vector<Tensor> XlaEngine::rows_of(const Tensor& stack) const {
  const Shape row(stack.shape().begin() + 1, stack.shape().end());
  std::vector<Tensor> rows;
  for (std::int64_t r = 0; r < stack.dim(0); ++r) rows.push_back(stack.view(r * element_count(row), row));
  return rows;
}

std::vector<Tensor> XlaEngine::allocate_stack(std::int64_t rows, const TensorSpec& spec) {
  TensorSpec whole = spec;
  whole.shape.insert(whole.shape.begin(), rows);
  // Also where a loop's body asks for it: a stack is what outlives an iteration.
  const Tensor stack = allocate_storage(whole);
  xla_storage(stack).is_stack = true;
  return rows_of(stack);
}

std::vector<Tensor> XlaEngine::allocate_shard_stack(std::int64_t rows, const TensorSpec& spec, AxisSet axes) {
  return zeros_stack(rows, shard_spec(spec, mesh_.size(axes)));
}

std::vector<Tensor> XlaEngine::zeros_stack(std::int64_t rows, const TensorSpec& spec) {
  std::vector<Tensor> stack = allocate_stack(rows, spec);
  if (!stack.empty()) xla_storage(stack.front()).is_state = true;
  return stack;
}

Tensor XlaEngine::input(const TensorSpec& spec, std::span<const std::byte> bytes) {
  Tensor tensor = allocate_storage(spec);
  if (!has_data()) {
    xla_storage(tensor).is_state = true;
    return tensor;
  }
  check_bytes("input", spec, bytes.size());
  xla_storage(tensor).host.assign(bytes.begin(), bytes.end());
  return tensor;
}

void XlaEngine::write(const Tensor& tensor, std::span<const std::byte> source) {
  if (!tensor.defined()) fail("write: the tensor is undefined");
  if (tensor.storage()->read_only()) fail("write: the memory of {} is borrowed", to_string(tensor.spec()));
  check_bytes("write", tensor.spec(), source.size());
  XlaStorage& storage = xla_storage(tensor);
  if (storage.made_in_loop != 0) fail("xla: a tensor of a loop's body is written to from outside");
  // Also where a program has only read it: it would have two arguments of one memory, and could be given but one.
  if (storage.changed || storage.value.defined()) run();
  // What was traced keeps the contents from before; what follows reads new ones.
  if (tensor.elements() < storage.spec().elements()) {
    host_copy(storage);
  } else {
    storage.host.resize(static_cast<std::size_t>(storage.spec().bytes()));
  }
  storage.value = {};
  storage.buffer.reset();
  if (!source.empty()) std::memcpy(storage.host.data() + tensor.byte_offset(), source.data(), source.size());
}

std::shared_ptr<const PjrtBuffer> XlaEngine::upload(XlaStorage& storage) {
  if (storage.buffer == nullptr) {
    storage.buffer = backend_->put(device_, storage.spec(), storage.host);
    std::vector<std::byte>().swap(storage.host);
  }
  return storage.buffer;
}

std::span<const std::byte> XlaEngine::host_copy(XlaStorage& storage) {
  if (storage.made_in_loop != 0) fail("xla: a tensor of a loop's body is read after the loop");
  if (storage.changed) run();
  if (storage.host.empty()) {
    storage.host.resize(static_cast<std::size_t>(storage.spec().bytes()));
    if (storage.buffer != nullptr) storage.buffer->read(storage.host);
  }
  return storage.host;
}

void XlaEngine::read(const Tensor& tensor, std::span<std::byte> destination) {
  if (!tensor.defined()) fail("read: the tensor is undefined");
  check_bytes("read", tensor.spec(), destination.size());
  if (destination.empty()) return;
  const std::span<const std::byte> bytes = host_copy(xla_storage(tensor));
  std::memcpy(destination.data(), bytes.data() + tensor.byte_offset(), destination.size());
}

std::span<const std::byte> XlaEngine::host_bytes(const Tensor& tensor) {
  return host_copy(xla_storage(tensor))
      .subspan(static_cast<std::size_t>(tensor.byte_offset()), static_cast<std::size_t>(tensor.spec().bytes()));
}

void XlaEngine::loop(const LoopRange& range, const std::function<void(std::int64_t)>& body) {
  trace_->loop(range, *live_, body);
}

void XlaEngine::run() {
  if (trace_->in_loop()) fail("xla: a tensor is read inside a loop");
  XlaProgram program = trace_->finish(*live_, mesh_.device_count());
  std::vector<std::shared_ptr<const PjrtBuffer>> results;
  if (!program.results.empty()) results = backend_->run(device_, program);
  std::size_t next = 0;
  for (const auto& [number, storage] : live_->by_number) {
    if (storage->changed && storage->made_in_loop == 0) {
      storage->buffer = std::move(results.at(next++));
      storage->host = {};
    }
    storage->changed = false;
    storage->value = {};
  }
  last_program_ = std::move(program.text);
  last_collectives_ = std::exchange(collectives_, {});
  begin_trace();
}

void XlaEngine::execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  if (const std::optional<XlaCollective> collective = collective_of(op, inputs, outputs, mesh_)) {
    add_collective(collectives_, *collective, trace_->iterations());
  }
  XlaContext context{trace_->writer(), mesh_, *trace_};
  std::visit([&](const auto& concrete) { trace(context, concrete, inputs, outputs); }, op);
}

}  // namespace maxtext
