#include "client/conformance/suite.h"
#include "shared/program/program.h"

int main(int argc, char** argv) {
  edgedraft::conformance::SuiteOptions options;
  edgedraft::Program program({.name = "edgedraft-conformance",
                              .what = "Check whether a server keeps the protocol edgedraft/1",
                              .version = "edgedraft-conformance " EDGEDRAFT_VERSION,
                              .default_file = "edgedraft-conformance.toml"});
  program.only(options, edgedraft::conformance::declare_suite, edgedraft::conformance::run_suite);
  return program.main(argc, argv);
}
