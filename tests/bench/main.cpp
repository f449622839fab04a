#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "shared/program/options.h"
#include "tests/bench/acceptance_command.h"
#include "tests/bench/agreement_command.h"
#include "tests/bench/device_command.h"
#include "tests/bench/engine_command.h"
#include "tests/bench/model_command.h"
#include "tests/bench/protocol_command.h"
#include "tests/bench/server_command.h"

int main(int argc, char** argv) {
  CLI::App program{"Measures the parts of Edgedraft, each against its own limit in the same run."};
  program.require_subcommand(1);
  edgedraft::bench::add_acceptance_command(program);
  edgedraft::bench::add_agreement_command(program);
  edgedraft::bench::add_device_command(program);
  edgedraft::bench::add_engine_command(program);
  edgedraft::bench::add_model_command(program);
  edgedraft::bench::add_protocol_command(program);
  edgedraft::bench::add_server_command(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = edgedraft::unknown_argument(program);
    if (unknown.empty()) return program.exit(error);
    std::fprintf(stderr, "edgedraft-bench: %s\n", unknown.c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "edgedraft-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
