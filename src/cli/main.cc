// The command line: finds the subcommand, runs it, and prints what went wrong once, as one line.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/version.h"
#include "config/nearest.h"
#include "mesh/mpi_transport.h"

namespace maxtext {
namespace {

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;

/// Which processes of a launcher run a command: each is a device of one run, or the first does all of it.
enum class Under { all_processes, first_process };

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments& arguments);
  Under launcher = Under::first_process;
};

constexpr std::array kCommands = {
    Command{"train", "train a model, or resume a run", train_command, Under::all_processes},
    Command{"plan", "predict memory, work and communication of a training step", plan_command},
    Command{"decode", "continue prompts with a trained model", decode_command},
    Command{"eval", "perplexity of a text under a model", eval_command},
    Command{"check-logits", "compare a model's logits with golden ones", check_logits_command},
    Command{"config", "explain configuration keys, or print the resolved configuration", config_command},
    Command{"train-tokenizer", "train a sentencepiece tokenizer on text", train_tokenizer_command},
    Command{"convert", "turn a checkpoint into a Hugging Face directory, or the other way", convert_command},
    Command{"generate-param-only-checkpoint", "keep only the weights of a checkpoint",
            generate_param_only_checkpoint_command},
    Command{"bench", "measure speed and memory", bench_command},
};

std::string usage() {
  std::string text =
      "Trains and runs large language models at long context.\n\nUsage: maxtext COMMAND ...\n\nCommands:\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<16} {}\n", command.name, command.summary);
  return text +
         "\n`maxtext COMMAND --help` explains a command. Exit code: 0 done, 1 failed, 2 wrong usage or "
         "configuration, 128 + N a signal N ended the answers.\n";
}

int run(const Command& command, const Arguments& arguments) {
  if (command.launcher == Under::first_process && launched_process_index() > 0) return 0;
  return command.run(arguments);
}

int run_command_line(const Arguments& arguments) {
  if (arguments.empty()) fail_config("a command is missing (see `maxtext --help`)");
  if (arguments.front() == "help" && arguments.size() > 1) return run_command_line({arguments[1], "--help"});
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    std::cout << usage();
    return 0;
  }
  if (name == "--version") {
    std::cout << "maxtext " << version() << "\n";
    return 0;
  }
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    names.push_back(command.name);
    if (command.name == name) return run(command, {arguments.begin() + 1, arguments.end()});
  }
  fail_config("unknown command '{}'{} (see `maxtext --help`)", name, did_you_mean(name, names));
}

/// What was printed last may still be in a buffer, and a full disk is noticed only here.
void finish_output() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail("standard output cannot be written");
}

int report(std::string_view message, int code) {
  std::cout.flush();
  let_first_process_speak();
  fmt::print(stderr, "maxtext: error: {}\n", message);
  return code;
}

}  // namespace
}  // namespace maxtext

int main(int argc, char** argv) {
  try {
    const int code = maxtext::run_command_line({argv + 1, argv + argc});
    maxtext::finish_output();
    return code;
  } catch (const maxtext::ConfigError& error) {
    return maxtext::report(error.what(), maxtext::kWrongUsage);
  } catch (const std::bad_alloc&) {
    return maxtext::report("out of memory", maxtext::kFailure);
  } catch (const std::exception& error) {
    return maxtext::report(error.what(), maxtext::kFailure);
  }
}
