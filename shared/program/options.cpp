#include "shared/program/options.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "shared/base/text_file.h"
#include "shared/program/toml_reader.h"

namespace edgedraft {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1u << 20;

constexpr auto kAny = [](CLI::App*) { return true; };  // selects every command

std::string env_name(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return name;
}

// False for an option whose name has another meaning in other commands.
bool takes_layers(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return option.get_configurable() && !names.empty() && names.front() != "help" &&
         names.front() != "version" && names.front() != "config";
}

// Options of all commands, requested or not.
std::vector<CLI::Option*> all_options(CLI::App& app) {
  std::vector<CLI::Option*> options = app.get_options();
  for (CLI::App* command : app.get_subcommands(kAny)) {
    std::ranges::copy(command->get_options(), std::back_inserter(options));
  }
  return options;
}

void declare_layers(CLI::App& app) {
  // CLI11's own message for flags does not start with the name, which with_variable() requires.
  const CLI::Validator is_truth(
      [](std::string& text) {
        bool ignored = false;
        return CLI::detail::lexical_cast(text, ignored) ? std::string()
                                                        : "'" + text + "': give true or false";
      },
      "");
  for (CLI::Option* option : all_options(app)) {
    if (!takes_layers(*option)) continue;
    option->envname(env_name(app.get_name() + "-" + option->get_lnames().front()));
    if (option->get_items_expected_max() == 0) option->check(is_truth);
  }
}

// CLI11's message about a value, with the variable's name if a variable set it.
std::string with_variable(const CLI::App& app, std::string message) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (!message.starts_with(name + ": ") || option->count() == 0) continue;
    if (std::ranges::count(app.parse_order(), option) > 0) continue;  // set on the command line
    return option->get_envname() + " (" + name + ")" + message.substr(name.size());
  }
  for (const CLI::App* sub : app.get_subcommands()) message = with_variable(*sub, message);
  return message;
}

// Applies variables that CLI11 skipped: newer versions ignore an invalid value.
void apply_environment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!takes_layers(*option) || option->count() > 0) continue;
    const char* const value = std::getenv(option->get_envname().c_str());
    if (value == nullptr || *value == '\0') continue;
    option->add_result(value);
    option->run_callback();
  }
  for (CLI::App* sub : app.get_subcommands()) apply_environment(*sub);
}

// True if one extra, missing, wrong or transposed character turns `a` into `b`.
bool is_slip_of(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() || b.empty()) return a.size() + b.size() == 1;
  const bool exchanged =
      a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0] && a.substr(2) == b.substr(2);
  return exchanged || a.substr(1) == b || a == b.substr(1) || a.substr(1) == b.substr(1);
}

// The client's prefix is a prefix of every other program's, so only near misses are reported. Short
// names are too similar to each other.
void warn_of_misspelt_variables(CLI::App& app) {
  constexpr std::size_t kNameMin = 5;
  const std::string prefix = env_name(app.get_name() + "-");
  std::set<std::string> known;
  for (const CLI::Option* option : all_options(app)) known.insert(option->get_envname());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(prefix) || name.size() < prefix.size() + kNameMin) continue;
    if (known.contains(name)) continue;
    const auto meant =
        std::ranges::find_if(known, [&](const std::string& one) { return is_slip_of(name, one); });
    if (meant == known.end()) continue;
    std::cerr << app.get_name() << ": the environment variable " << name
              << " is ignored: unknown; did you mean " << *meant << "?\n";
  }
}

// Any scalar as command-line text.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) {
    char digits[32];  // shortest that read back as the same number
    return std::string(digits, std::to_chars(digits, std::end(digits), number->get()).ptr);
  }
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

Result<void> apply_value(CLI::Option& option, const toml::node& node) {
  std::vector<std::string> values;
  if (const auto* array = node.as_array()) {
    for (const toml::node& element : *array) {
      const auto text = scalar_text(element);
      if (!text)
        return Error{Errc::usage,
                     option.get_name() + ": the list contains something other than values"};
      values.push_back(*text);
    }
  } else if (const auto text = scalar_text(node)) {
    values.push_back(*text);
  } else {
    return Error{Errc::usage, option.get_name() + ": neither a value nor a list"};
  }
  if (option.count() > 0) return boost::system::in_place_value;
  option.add_result(values);
  option.run_callback();
  return boost::system::in_place_value;
}

// Finds the option of that key in the application or a requested subcommand. Sets `known` if any
// subcommand has it, so that one file serves all.
CLI::Option* find_option(CLI::App& app, const std::string& key, bool& known) {
  if (CLI::Option* option = app.get_option_no_throw("--" + key); option && takes_layers(*option)) {
    known = true;
    return option;
  }
  CLI::Option* found = nullptr;
  for (CLI::App* sub : app.get_subcommands(kAny)) {
    CLI::Option* option = find_option(*sub, key, known);
    if (option && sub->parsed()) found = option;
  }
  return found;
}

// Names of the commands; empty for a program that has none.
std::string commands_of(CLI::App& app) {
  return CLI::detail::join(
      app.get_subcommands(kAny), [](const CLI::App* command) { return command->get_name(); }, ", ");
}

// Error for the first unexpected argument of a parsed application; empty if there is none.
std::string unknown_argument(CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty()) return {};
  const std::string& first = left.front();
  const std::string commands = commands_of(app);
  if (first.starts_with('-') || commands.empty() || !app.get_subcommands().empty()) {
    return "unexpected argument '" + first + "'; see --help";
  }
  return "unknown command '" + first + "'; the commands are " + commands;
}

// Path from a variable, if it is absolute.
std::filesystem::path absolute_path(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value == '/' ? value : "";
}

// A service may lack HOME, and a container's user an entry.
std::filesystem::path home_directory() {
  if (auto home = absolute_path("HOME"); !home.empty()) return home;
  static const std::filesystem::path of_user = [] {
    const passwd* const user = getpwuid(getuid());
    return user != nullptr && *user->pw_dir == '/' ? user->pw_dir : "";
  }();
  return of_user;
}

std::filesystem::path xdg_directory(const char* variable, const char* below_home) {
  if (const auto given = absolute_path(variable); !given.empty()) return given / "edgedraft";
  const std::filesystem::path home = home_directory();
  return home.empty() ? home : home / below_home / "edgedraft";
}

}  // namespace

OptionLayers::OptionLayers(CLI::App& app, std::string default_file)
    : app_(app), default_file_(std::move(default_file)) {
  std::string help = "TOML file with option names as keys";
  if (const auto usual = place_in(config_directory(), default_file_); !usual.empty()) {
    help += " [default: " + usual.string() + " if it exists]";
  }
  app_.add_option("--config", config_file_, help)->type_name("FILE");
  declare_layers(app_);
}

Result<OptionLayers::Parsed> OptionLayers::parse(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
    apply_environment(app_);
    warn_of_misspelt_variables(app_);
    if (auto applied = apply_file(); !applied) return applied.error();
    return Parsed::go_on;
  } catch (const CLI::ParseError& e) {
    if (std::string unknown = unknown_argument(app_); !unknown.empty()) {
      return Error{Errc::usage, std::move(unknown)};
    }
    if (e.get_exit_code() == 0) {
      app_.exit(e);
      return Parsed::shown;
    }
    const std::string commands = commands_of(app_);
    if (!commands.empty() && app_.get_subcommands().empty()) {
      return Error{Errc::usage, "a command is missing; the commands are " + commands};
    }
    return Error{Errc::usage, with_variable(app_, e.what())};
  }
}

Result<void> OptionLayers::apply_file() {
  std::filesystem::path file = config_file_;
  if (file.empty()) {
    file = place_in(config_directory(), default_file_);
    // A file that this user may not even look up counts as missing.
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return boost::system::in_place_value;
  }
  const auto text = read_text_file(file, kConfigBytesMax);
  if (!text) return Error{Errc::usage, text.error().message};
  const auto wrong = [&](toml::source_index line, const std::string& what) {
    return Error{Errc::usage, file.string() + ", line " + std::to_string(line) + ": " + what};
  };
  const auto table = parse_toml(*text, file);
  if (!table) return table.error();
  std::map<std::string, toml::source_index> lines;  // line of each option
  for (const auto& [key, node] : *table) {
    const toml::source_index line = key.source().begin.line;
    std::string name(key.str());
    std::replace(name.begin(), name.end(), '_', '-');
    // The parser refuses duplicate keys, but not the same key with an underscore for a hyphen.
    if (const auto [at, is_new] = lines.emplace(name, line); !is_new) {
      const auto [first, second] = std::minmax(at->second, line);
      return wrong(second, "'" + name + "' is already given in line " + std::to_string(first));
    }
    bool known = false;
    CLI::Option* option = find_option(app_, name, known);
    if (!known) return wrong(line, "unknown option '" + name + "'; see --help");
    if (!option) continue;
    try {
      if (auto applied = apply_value(*option, node); !applied) {
        return wrong(line, applied.error().message);
      }
    } catch (const CLI::ParseError& e) {
      return wrong(line, e.what());
    }
  }
  return boost::system::in_place_value;
}

std::filesystem::path config_directory() {
  return xdg_directory("XDG_CONFIG_HOME", ".config");
}

std::filesystem::path state_directory() {
  return xdg_directory("XDG_STATE_HOME", ".local/state");
}

std::filesystem::path data_directory() {
  return xdg_directory("XDG_DATA_HOME", ".local/share");
}

std::filesystem::path cache_directory() {
  return xdg_directory("XDG_CACHE_HOME", ".cache");
}

std::filesystem::path place_in(const std::filesystem::path& directory, const std::string& name) {
  return directory.empty() ? directory : directory / name;
}

int exit_code_of(Errc code) {
  switch (code) {
    case Errc::usage:
      return 2;
    case Errc::link_down:
    case Errc::unknown_host:
    case Errc::timed_out:
    case Errc::refused:
    case Errc::session_unknown:
    case Errc::frame_truncated:
    case Errc::frame_too_large:
    case Errc::bad_message:
    case Errc::protocol:
    case Errc::version:
      return 3;
    case Errc::unauthorized:
    case Errc::untrusted:
      return 4;
    case Errc::bad_file:
    case Errc::unsupported:
    case Errc::mismatch:
      return 5;
    case Errc::io:
    case Errc::context_full:
    case Errc::cancelled:
      return 1;
  }
  return 1;
}

}  // namespace edgedraft
