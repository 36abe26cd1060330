// The options of a subcommand and their parsing, the same way for all of them.
//
// Over CLI11, which only command_line.cc includes: its header takes 2.8 s to read and as long again where it is used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace maxtext {

/// What an option has to be, and what help says of it.
struct OptionRule {
  enum class Range { any, non_negative, positive };

  bool required = false;
  bool shows_default = false;  // the value that its variable has when the option is declared
  Range range = Range::any;
  std::vector<std::string> one_of = {};  // nothing: any value
};

class CommandLine {
 public:
  /// `command` as the user types it, e.g. "maxtext train".
  CommandLine(const std::string& command, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// `--name VALUE`, or without the dashes the next argument that is no option; of a list all that are left. `value`
  /// keeps its default unless the option is given, and has to live until parse(). A text that is given is not empty.
  void option(const std::string& name, std::string& value, const std::string& help, const OptionRule& rule = {});
  void option(const std::string& name, Arguments& value, const std::string& help, const OptionRule& rule = {});
  void option(const std::string& name, std::int32_t& value, const std::string& help, const OptionRule& rule = {});
  void option(const std::string& name, std::int64_t& value, const std::string& help, const OptionRule& rule = {});
  void option(const std::string& name, double& value, const std::string& help, const OptionRule& rule = {});

  /// `FILE key=value ...`, which commands about a model or a run begin with.
  void config_option(Arguments& file_and_overrides);

  struct Flag {
    std::string name;
    bool* value;
    std::string help;
  };

  void flag(const Flag& flag);

  /// Flags of which at most one may be given; `kind` is their heading in help.
  void exclusive_flags(const std::string& kind, const std::vector<Flag>& flags);

  /// Text below the options in help.
  void footer(const std::string& text);

  /// Returns false when help was asked for, which has then been printed. Throws ConfigError for wrong usage.
  bool parse(const Arguments& arguments);

 private:
  struct App;
  std::unique_ptr<App> app_;
};

}  // namespace maxtext
