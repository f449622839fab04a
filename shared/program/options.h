#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// Makes a program's options readable from three places: the command line wins over the environment
// (EDGEDRAFT_SERVER_MAX_SESSIONS for edgedraft-server's --max-sessions), the environment over a
// TOML file (max-sessions = 64), the file over the default. Works on a CLI11 application whose
// options are declared; subcommands included.
//
// The file is the one that --config names, else `default_file` in the configuration directory where
// there is one. A key that no option has is an error, so that a slip of the pen is seen; a variable
// that nearly has an option's name is warned of.
class OptionLayers {
 public:
  OptionLayers(CLI::App& app, std::string default_file);

  enum class Parsed : std::uint8_t {
    go_on,
    shown,  // what --help or --version asks for; the program ends
  };
  // Parses everything, a mistake beside --help included.
  // Errors    usage naming the option, or else the argument, and what it takes
  Result<Parsed> parse(int argc, const char* const* argv);

 private:
  Result<void> apply_file();

  CLI::App& app_;
  std::string default_file_;
  std::string config_file_;
};

// Directories of the XDG specification, ours below them: configuration, state that a program keeps
// (keys, pins), the user's data, and what can be made again. None is created. Empty where the user
// has no home: never a folder below the one that the program happens to be started in.
std::filesystem::path config_directory();
std::filesystem::path state_directory();
std::filesystem::path data_directory();
std::filesystem::path cache_directory();
// `name` in one of them; empty where there is none.
std::filesystem::path place_in(const std::filesystem::path& directory, const std::string& name);

// The exit status that tells a script what kind of failure ended a program: 2 usage, 3 the link or
// the server, 4 trust or sign-in, 5 a model file, 1 anything else.
int exit_code_of(Errc code);

}  // namespace edgedraft
