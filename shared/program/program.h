#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "shared/base/clock.h"
#include "shared/base/error.h"

namespace edgedraft {

// When this process began, but for what the system did to load it.
Instant program_start();

// The other end of standard output, a pipe, is closed, as behind `| head`: it has what it wanted.
bool reader_has_left();

// The main function of a program of ours: its options in their three layers (OptionLayers), its
// table of commands, and one way of reporting errors.
//
//     Program program({"edgedraft", "What it is", "edgedraft 1.2", "edgedraft.toml"});
//     program.command("run", "Answer one prompt", options.run, declare_run, run_once);
//     return program.main(argc, argv);
class Program {
 public:
  struct Description {
    std::string name;  // also the prefix of its variables: EDGEDRAFT_SERVER_ for edgedraft-server
    std::string what;
    std::string version;       // what --version shows
    std::string default_file;  // in the configuration directory
  };

  explicit Program(Description description);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // A command with options of its own: `declare(CLI::App&, options)` adds them, `run(options)`
  // gives the exit status or an Error. Requires  `options` outlives this.
  template <class Options, class Declare, class Run>
  void command(const char* name, const char* what, Options& options, Declare declare, Run run) {
    CLI::App* const sub = add_command(name, what);
    declare(*sub, options);
    // As the command is read: CLI11 then holds the environment against its options alone, not
    // against those of every command, where the same name may take other values.
    sub->parse_complete_callback(
        [this, &options, run] { action_ = [&options, run] { return run(options); }; });
  }

  // The same of a program that does one thing.
  template <class Options, class Declare, class Run>
  void only(Options& options, Declare declare, Run run) {
    declare(app_, options);
    action_ = [&options, run] { return run(options); };
  }

  // How an error is written for a program that asked for --json, on standard output beside the
  // sentence on standard error. Without one there is the sentence alone.
  void write_errors_as(std::string (*to_json)(const Error&)) { to_json_ = to_json; }

  // Parses, runs, and explains what went wrong. Returns the exit status.
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
