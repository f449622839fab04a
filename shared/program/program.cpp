#include "shared/program/program.h"

#include <poll.h>
#include <unistd.h>

#include <iostream>
#include <string_view>
#include <vector>

#include "shared/base/printable.h"
#include "shared/program/options.h"

namespace edgedraft {
namespace {

const Instant kStart = Clock::now();

// Works even if parsing ended early.
bool asked_for_json(const CLI::App& app) {
  const CLI::Option* const json = app.get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0) {
    try {
      return json->as<bool>();
    } catch (const CLI::ParseError&) {
      return true;  // it is the faulty argument
    }
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (asked_for_json(*command)) return true;
  }
  return false;
}

}  // namespace

bool reader_has_left() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

Instant program_start() {
  return kStart;
}

Program::Program(Description description)
    : app_(std::move(description.what), std::move(description.name)),
      default_file_(std::move(description.default_file)) {
  app_.set_version_flag("--version", std::move(description.version));
}

CLI::App* Program::add_command(const char* name, const char* what) {
  app_.require_subcommand(1);
  app_.fallthrough();
  app_.footer("Run `" + app_.get_name() + " help COMMAND` for the options of a command.");
  CLI::App* const sub = app_.add_subcommand(name, what);
  sub->fallthrough();
  return sub;
}

int Program::fail(const Error& error) const {
  std::cerr << app_.get_name() << ": " << printable(error.message, Lines::one) << '\n';
  if (to_json_ != nullptr && asked_for_json(app_)) std::cout << to_json_(error) << std::endl;
  return exit_code_of(error.code);
}

int Program::main(int argc, const char* const* argv) {
  const int status = parse_and_run(argc, argv);
  // A truncated answer in a file would pass for a complete one.
  if (status != 0 || std::cout.flush() || reader_has_left()) return status;
  return fail({Errc::io, "cannot write to standard output: check whether the disk is full"});
}

int Program::parse_and_run(int argc, const char* const* argv) {
  try {
    std::vector<const char*> arguments(argv, argv + argc);
    // `help COMMAND` is `COMMAND --help`.
    if (argc >= 2 && argv[1] == std::string_view("help") && app_.get_require_subcommand_min() > 0) {
      arguments.erase(arguments.begin() + 1);
      arguments.push_back("--help");
    }
    OptionLayers layers(app_, default_file_);
    const auto parsed = layers.parse(static_cast<int>(arguments.size()), arguments.data());
    if (!parsed) return fail(parsed.error());
    if (*parsed == OptionLayers::Parsed::shown) return 0;
    const auto status = action_();
    return status ? *status : fail(status.error());
  } catch (const Failure& failure) {
    return fail(failure.error());
  } catch (const std::exception& failure) {
    return fail({Errc::io, failure.what()});
  }
}

}  // namespace edgedraft
