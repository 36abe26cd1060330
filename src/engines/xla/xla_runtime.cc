#include "engines/xla/xla_runtime.h"

#include <chrono>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/seconds_since.h"
#include "mesh/communicator.h"
#include "mesh/device_program.h"

namespace maxtext {
namespace {

[[noreturn]] void fail_at_difference(std::size_t device, const std::string& expected, const std::string& actual) {
  std::istringstream expected_lines(expected);
  std::istringstream actual_lines(actual);
  std::string expected_line;
  std::string actual_line;
  int number = 0;
  do {
    ++number;
    if (!std::getline(expected_lines, expected_line)) expected_line = "(end)";
    if (!std::getline(actual_lines, actual_line)) actual_line = "(end)";
  } while (expected_line == actual_line);
  fail("device {} traced another program than device 0: line {} is `{}`, not `{}`", device, number, actual_line,
       expected_line);
}

}  // namespace

XlaRuntime::XlaRuntime(std::unique_ptr<PjrtClient> client, int devices, XlaRuntimeOptions options)
    : client_(std::move(client)),
      options_(std::move(options)),
      cores_(split_cores(1).front()),
      given_(static_cast<std::size_t>(devices)),
      results_(static_cast<std::size_t>(devices)),
      joined_(static_cast<std::size_t>(devices)),
      left_(static_cast<std::size_t>(devices)) {}

std::shared_ptr<const PjrtBuffer> XlaRuntime::put(int device, const TensorSpec& spec,
                                                  std::span<const std::byte> bytes) {
  if (!bytes.empty() || spec.bytes() == 0) return client_->put(device, spec, bytes);
  const std::vector<std::byte> zeros(static_cast<std::size_t>(spec.bytes()));
  return client_->put(device, spec, zeros);
}

void XlaRuntime::join(int device) {
  const std::lock_guard lock(mutex_);
  ++joined_.at(static_cast<std::size_t>(device));
}

void XlaRuntime::leave(int device) noexcept {
  const std::lock_guard lock(mutex_);
  left_[static_cast<std::size_t>(device)] = joined_[static_cast<std::size_t>(device)];
  changed_.notify_all();
}

int XlaRuntime::missing_in_round_of(std::size_t device) const {
  for (std::size_t other = 0; other < left_.size(); ++other) {
    if (left_[other] >= joined_[device]) return static_cast<int>(other);
  }
  return -1;
}

int XlaRuntime::compiled_programs() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(programs_.size());
}

double XlaRuntime::compile_seconds() const {
  const std::lock_guard lock(mutex_);
  return compile_seconds_;
}

std::vector<std::shared_ptr<const PjrtBuffer>> XlaRuntime::run(int device, const XlaProgram& program) {
  const auto index = static_cast<std::size_t>(device);
  std::unique_lock lock(mutex_);
  given_.at(index) = &program;
  const std::uint64_t mine = runs_;
  if (++arrived_ < given_.size()) {
    // The run itself holds the mutex: what is waited for is that the others come.
    changed_.wait_for(lock, options_.timeout, [&] { return runs_ != mine || missing_in_round_of(index) >= 0; });
    if (runs_ == mine) {
      --arrived_;
      if (missing_in_round_of(index) < 0) {
        fail("device {} waited {} s for {} of {} devices to run a program (collective_timeout_seconds)", device,
             std::chrono::duration<double>(options_.timeout).count(), given_.size() - arrived_ - 1, given_.size());
      }
      throw PeerFailure(failure_text(missing_in_round_of(index), "it ended while others run a program"));
    }
  } else {
    failure_ = nullptr;
    try {
      run_all();
    } catch (...) {
      failure_ = std::current_exception();
    }
    arrived_ = 0;
    ++runs_;
    changed_.notify_all();
  }
  if (failure_) std::rethrow_exception(failure_);
  return std::move(results_[index]);
}

void XlaRuntime::check_same_program() const {
  for (std::size_t i = 1; i < given_.size(); ++i) {
    if (given_[i]->text != given_[0]->text) fail_at_difference(i, given_[0]->text, given_[i]->text);
  }
}

void XlaRuntime::run_all() {
  check_same_program();
  PjrtProgram& program = compiled(*given_[0]);
  std::vector<PjrtProgram::Arguments> arguments;
  for (const XlaProgram* given : given_) {
    arguments.emplace_back();
    for (const auto& buffer : given->arguments) arguments.back().push_back(buffer.get());
  }
  std::vector<PjrtProgram::Results> results = program.run(arguments, given_[0]->results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results_[i].clear();
    for (auto& buffer : results[i]) results_[i].push_back(std::move(buffer));
  }
}

PjrtProgram& XlaRuntime::compiled(const XlaProgram& program) {
  const auto known = programs_.find(program.text);
  if (known != programs_.end()) return *known->second;
  dump(program.text);
  // The thread of a device is bound to that device's cores, and so would be the threads that a compiler starts.
  pin_current_thread(cores_);
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<PjrtProgram> made = client_->compile(
      program.text, {.replicas = static_cast<int>(given_.size()), .device_ids = {}, .flags = options_.flags});
  compile_seconds_ += seconds_since(begin);
  return *programs_.emplace(program.text, std::move(made)).first->second;
}

void XlaRuntime::dump(const std::string& text) const {
  if (options_.dump_to.empty()) return;
  const std::filesystem::path file = options_.dump_to / fmt::format("program_{:03}.mlir", programs_.size());
  std::ofstream out(file);
  out << text;
  if (!out.flush()) fail("{}: cannot be written (xla_dump_to)", file.string());
}

}  // namespace maxtext
