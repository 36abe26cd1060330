#include "engines/xla/replicas.h"

#include <sstream>

#include "base/error.h"

namespace maxtext {
namespace {

[[noreturn]] void fail_at_difference(int device, const std::string& expected, const std::string& actual) {
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

PjrtProgram::Results put_arguments(PjrtClient& client, const XlaEngine& engine) {
  PjrtProgram::Results buffers;
  for (const HostArray& array : engine.arguments()) {
    buffers.push_back(client.put(engine.device(), array.spec, array.bytes));
  }
  return buffers;
}

std::vector<HostArray> read_results(const PjrtProgram::Results& results) {
  std::vector<HostArray> arrays;
  for (const std::unique_ptr<PjrtBuffer>& buffer : results) {
    HostArray array{buffer->spec(), std::vector<std::byte>(static_cast<std::size_t>(buffer->spec().bytes()))};
    buffer->read(array.bytes);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace

void check_same_program(std::span<const XlaEngine* const> engines) {
  if (engines.empty()) fail("xla: no device has traced a program");
  const std::string expected = engines[0]->module_text();
  for (const XlaEngine* engine : engines.subspan(1)) {
    if (const std::string actual = engine->module_text(); actual != expected) {
      fail_at_difference(engine->device(), expected, actual);
    }
  }
}

void run_replicas(PjrtClient& client, std::span<XlaEngine* const> engines) {
  const std::vector<const XlaEngine*> traced(engines.begin(), engines.end());
  check_same_program(traced);
  if (engines[0]->mesh().device_count() != std::ssize(engines)) {
    fail("xla: a mesh of {} devices, but {} programs", engines[0]->mesh().device_count(), engines.size());
  }
  std::vector<PjrtProgram::Results> buffers;
  std::vector<PjrtProgram::Arguments> arguments;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (engines[i]->device() != static_cast<int>(i)) fail("xla: programs must come in the order of devices");
    buffers.push_back(put_arguments(client, *engines[i]));
    arguments.emplace_back();
    for (const std::unique_ptr<PjrtBuffer>& buffer : buffers.back()) arguments.back().push_back(buffer.get());
  }
  const std::unique_ptr<PjrtProgram> program =
      client.compile(engines[0]->module_text(), static_cast<int>(engines.size()));
  const std::vector<PjrtProgram::Results> results = program->run(arguments, engines[0]->result_specs());
  for (std::size_t i = 0; i < engines.size(); ++i) engines[i]->set_results(read_results(results[i]));
}

}  // namespace maxtext
