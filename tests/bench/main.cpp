#include "shared/program/program.h"
#include "tests/bench/commands.h"

namespace edgedraft::bench {
namespace {

int main_with(int argc, char** argv) {
  Program program(
      {.name = "edgedraft-bench",
       .what = "Measures the parts of Edgedraft, each against its own limit in the same run.",
       .version = "edgedraft-bench " EDGEDRAFT_VERSION,
       .default_file = "edgedraft-bench.toml"});
  add_acceptance(program);
  add_device(program);
  add_drafters(program);
  add_engine(program);
  add_model(program);
  add_overlap(program);
  add_protocol(program);
  add_server(program);
  return program.main(argc, argv);
}

}  // namespace
}  // namespace edgedraft::bench

int main(int argc, char** argv) {
  return edgedraft::bench::main_with(argc, argv);
}
