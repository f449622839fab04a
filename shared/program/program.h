#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "shared/base/clock.h"
#include "shared/base/error.h"

namespace edgedraft {

// Start time of this process, excluding the time that the system took to load it.
Instant program_start();

// True if the reader of standard output closed the pipe, as `head` does after enough lines.
bool reader_has_left();

// Main function of a program: options from three sources (OptionLayers), a table of commands, and
// uniform error reports.
//
//     Program program({"edgedraft", "What it is", "edgedraft 1.2", "edgedraft.toml"});
//     program.command("run", "Answer one prompt", options.run, declare_run, run_once);
//     return program.main(argc, argv);
class Program {
 public:
  struct Description {
    std::string name;  // also the prefix of its variables: EDGEDRAFT_SERVER_ for edgedraft-server
    std::string what;
    std::string version;       // text for --version
    std::string default_file;  // in the configuration directory
  };

  explicit Program(Description description);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Adds a command: `declare(CLI::App&, options)` declares its options, `run(options)` returns the
  // exit status or an Error. Requires  `options` outlives this.
  template <class Options, class Declare, class Run>
  void command(const char* name, const char* what, Options& options, Declare declare, Run run) {
    CLI::App* const sub = add_command(name, what);
    declare(*sub, options);
    // Apply as the command is parsed: CLI11 then checks the environment against this command's
    // options only; the same name may accept other values elsewhere.
    sub->parse_complete_callback(
        [this, &options, run] { action_ = [&options, run] { return run(options); }; });
  }

  // As above, for a program without commands.
  template <class Options, class Declare, class Run>
  void only(Options& options, Declare declare, Run run) {
    declare(app_, options);
    action_ = [&options, run] { return run(options); };
  }

  // Sets the JSON form of an error, printed to standard output for a program asked for --json. The
  // sentence on standard error is printed in any case.
  void write_errors_as(std::string (*to_json)(const Error&)) { to_json_ = to_json; }

  // Parses, runs and reports errors. Returns the exit status.
  int main(int argc, const char* const* argv);

 private:
  CLI::App* add_command(const char* name, const char* what);
  int parse_and_run(int argc, const char* const* argv);
  int fail(const Error& error) const;

  CLI::App app_;
  std::string default_file_;
  std::function<Result<int>()> action_;
  std::string (*to_json_)(const Error&) = nullptr;
};

}  // namespace edgedraft
