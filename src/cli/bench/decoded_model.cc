#include "cli/bench/decoded_model.h"

#include <chrono>
#include <utility>

#include "base/seconds_since.h"
#include "mesh/device_program.h"

namespace maxtext::bench {
namespace {

CachedModelOptions options(const DecodeCase& sizes, std::int64_t max_length) {
  CachedModelOptions options;
  options.cache = {.sequences = sizes.batch, .max_length = max_length, .dtype = sizes.cache};
  return options;
}

}  // namespace

DecodedModel::DecodedModel(std::unique_ptr<Communicator> communicator, const ModelShape& shape, const DecodeCase& sizes,
                           std::int64_t max_length, int threads)
    : sizes_(sizes),
      communicator_(std::move(communicator)),
      engine_({.threads = threads, .fast_few_rows = true}, *communicator_),
      weights_(engine_, shape, 1, sizes.weights),
      model_(engine_, shape, weights_, options(sizes, max_length)) {}

void DecodedModel::set_context(std::int64_t length) {
  context_ = length;
  for (int slot = 0; slot < model_.slots(); ++slot) model_.pretend_length(slot, length);
  measure_steps();
}

double DecodedModel::measure_steps() {
  std::vector<int> slots;
  for (int slot = 0; slot < model_.slots(); ++slot) slots.push_back(slot);
  const std::vector<std::int32_t> ids(slots.size(), 1);
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < sizes_.steps; ++step) model_.step(slots, ids);
  const double seconds = seconds_since(start) / sizes_.steps;
  for (int slot = 0; slot < model_.slots(); ++slot) model_.shorten(slot, context_);
  return 1 / seconds;
}

double DecodedModel::bytes_per_step() const {
  const KeyValueCache& cache = model_.cache();
  const double per_position =
      static_cast<double>(cache.bytes()) / static_cast<double>(cache.capacity() * model_.slots());
  return weight_bytes() + per_position * static_cast<double>(context_ * model_.slots());
}

double DecodedModel::measure_prompt(std::int64_t tokens) {
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens), 1);
  const auto start = std::chrono::steady_clock::now();
  model_.prefill(0, ids, {});
  return seconds_since(start);
}

SharedModel::SharedModel(int devices, const ModelShape& shape, const DecodeCase& sizes, std::int64_t context)
    : transport_(Mesh({1, 1, devices, 1})),
      threads_(split_cores(devices),
               [this](int device, const std::string& reason) { transport_.abort(device, reason); }),
      models_(static_cast<std::size_t>(devices)) {
  const auto threads = static_cast<int>(split_cores(devices).front().size());
  threads_.run([&](int device) {
    std::unique_ptr<DecodedModel>& mine = models_[static_cast<std::size_t>(device)];
    mine =
        std::make_unique<DecodedModel>(transport_.communicator(device), shape, sizes, context + sizes.steps, threads);
    mine->set_context(context);
  });
}

SharedModel::~SharedModel() {
  threads_.run([&](int device) { models_[static_cast<std::size_t>(device)].reset(); });
}

double SharedModel::measure_steps() {
  double rate = 0;
  threads_.run([&](int device) {
    const double mine = models_[static_cast<std::size_t>(device)]->measure_steps();
    if (device == 0) rate = mine;
  });
  return rate;
}

}  // namespace maxtext::bench
