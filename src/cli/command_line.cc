#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/error.h"

namespace maxtext {

struct CommandLine::App : CLI::App {
  using CLI::App::App;
};

namespace {

/// What CLI11 says of a number out of range spells the range with all digits of the largest double.
std::string range_error(const std::string& text, OptionRule::Range range) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool number = end != text.c_str() && *end == '\0';
  if (range == OptionRule::Range::non_negative) return number && value >= 0 ? "" : "has to be at least 0, not " + text;
  return number && value > 0 ? "" : "has to be more than 0, not " + text;
}

template <typename T>
CLI::Option* declare(CLI::App& app, const std::string& name, T& value, const std::string& help,
                     const OptionRule& rule) {
  CLI::Option* option = app.add_option(name, value, help)->required(rule.required);
  if (rule.shows_default) option->capture_default_str();
  if (rule.range != OptionRule::Range::any) {
    option->check([range = rule.range](const std::string& text) { return range_error(text, range); });
  }
  if (!rule.one_of.empty()) option->check(CLI::IsMember(rule.one_of));
  return option;
}

}  // namespace

CommandLine::CommandLine(const std::string& command, const std::string& description)
    : app_(std::make_unique<App>(description, command)) {}

CommandLine::~CommandLine() = default;

void CommandLine::option(const std::string& name, std::string& value, const std::string& help, const OptionRule& rule) {
  declare(*app_, name, value, help, rule)->check([](const std::string& text) {
    return text.empty() ? std::string("expected a value, got an empty text") : std::string();
  });
}

void CommandLine::option(const std::string& name, Arguments& value, const std::string& help, const OptionRule& rule) {
  declare(*app_, name, value, help, rule);
}

void CommandLine::option(const std::string& name, std::int32_t& value, const std::string& help,
                         const OptionRule& rule) {
  declare(*app_, name, value, help, rule);
}

void CommandLine::option(const std::string& name, std::int64_t& value, const std::string& help,
                         const OptionRule& rule) {
  declare(*app_, name, value, help, rule);
}

void CommandLine::option(const std::string& name, double& value, const std::string& help, const OptionRule& rule) {
  declare(*app_, name, value, help, rule);
}

void CommandLine::config_option(Arguments& file_and_overrides) {
  option("config", file_and_overrides, "FILE key=value ...: configs/base.yml or a run file, and overrides",
         {.required = true});
}

void CommandLine::flag(const Flag& flag) { app_->add_flag(flag.name, *flag.value, flag.help); }

void CommandLine::exclusive_flags(const std::string& kind, const std::vector<Flag>& flags) {
  CLI::Option_group* group = app_->add_option_group(kind, "At most one of");
  group->require_option(0, 1);
  for (const Flag& flag : flags) group->add_flag(flag.name, *flag.value, flag.help);
}

void CommandLine::footer(const std::string& text) { app_->footer(text); }

bool CommandLine::parse(const Arguments& arguments) {
  // CLI11 takes a vector from its end.
  Arguments reversed(arguments.rbegin(), arguments.rend());
  try {
    app_->parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    return false;
  } catch (const CLI::ParseError& error) {
    std::string reason = error.what();
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    fail_config("{} (see `{} --help`)", reason, app_->get_name());
  }
  return true;
}

}  // namespace maxtext
