#include <iostream>
#include <string>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "config/describe.h"
#include "config/nearest.h"

namespace maxtext {
namespace {

void print_keys(const Arguments& names) {
  if (names.empty()) {
    std::cout << describe_all_keys();
    return;
  }
  std::string text;
  for (const std::string& name : names) {
    const auto index = find_key(name);
    if (!index) fail_config("unknown key '{}'{}", name, did_you_mean(name, all_key_names()));
    if (!text.empty()) text += '\n';
    text += describe_key(all_keys()[*index]);
  }
  std::cout << text;
}

void dump(const Arguments& file_and_overrides) {
  ConfigRequest request = config_request(file_and_overrides);
  request.check_files = false;
  const Config config = load_config(request);
  note_ignored_keys(config);
  const std::string base = std::filesystem::absolute(find_base_file(request.file)).string();
  std::cout << dump_config(config, base, resolve_mesh(config));
}

}  // namespace

int config_command(const Arguments& arguments) {
  CommandLine command_line("maxtext config", "Explain keys, or print the resolved configuration.");
  Arguments names;
  bool dump_wanted = false;
  bool yaml = false;
  bool markdown = false;
  command_line.option("keys", names, "Keys to explain (all when there are none); with --dump: FILE key=value ...");
  command_line.exclusive_flags(
      "output", {{"--dump", &dump_wanted, "Print the configuration of FILE key=value ... and where each value is from"},
                 {"--yaml", &yaml, "Print configs/base.yml"},
                 {"--markdown", &markdown, "Print docs/configuration.md"}});
  if (!command_line.parse(arguments)) return 0;
  if ((yaml || markdown) && !names.empty()) fail_config("argument '{}': --yaml and --markdown take none", names[0]);
  if (yaml) {
    std::cout << base_yaml();
  } else if (markdown) {
    std::cout << configuration_markdown();
  } else if (dump_wanted) {
    dump(names);
  } else {
    print_keys(names);
  }
  return 0;
}

}  // namespace maxtext
