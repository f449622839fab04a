#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// Reads a program's options from the command line, the environment and a TOML file, in this
// precedence, before defaults. --max-sessions of edgedraft-server is EDGEDRAFT_SERVER_MAX_SESSIONS
// in the environment and max-sessions = 64 in the file. Works on a CLI11 application with declared
// options and subcommands.
//
// The file is the one named by --config, else `default_file` in the configuration directory if it
// exists. An unknown key is an error, to catch typos; a variable that nearly matches an option
// causes a warning.
class OptionLayers {
 public:
  OptionLayers(CLI::App& app, std::string default_file);

  enum class Parsed : std::uint8_t {
    go_on,
    shown,  // the text for --help or --version; the program ends
  };
  // Parses everything, and reports errors even beside --help.
  // Errors    usage naming the option, or else the argument, and its format
  Result<Parsed> parse(int argc, const char* const* argv);

 private:
  Result<void> apply_file();

  CLI::App& app_;
  std::string default_file_;
  std::string config_file_;
};

// XDG base directories with our subfolder: configuration, state (keys, pins), user data, and cache.
// Not created. Empty if the user has no home; never relative to the working directory.
std::filesystem::path config_directory();
std::filesystem::path state_directory();
std::filesystem::path data_directory();
std::filesystem::path cache_directory();
// `name` in a directory; empty if the directory is.
std::filesystem::path place_in(const std::filesystem::path& directory, const std::string& name);

// Exit status by kind of failure, for scripts: 2 usage, 3 link or server, 4 trust or sign-in, 5
// model file, 1 any other.
int exit_code_of(Errc code);

}  // namespace edgedraft
