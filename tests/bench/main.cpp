#include "shared/program/program.h"
#include "tests/bench/acceptance_command.h"
#include "tests/bench/agreement_command.h"
#include "tests/bench/detectors_command.h"
#include "tests/bench/device_command.h"
#include "tests/bench/drafters_command.h"
#include "tests/bench/engine_command.h"
#include "tests/bench/fingerprint_command.h"
#include "tests/bench/model_command.h"
#include "tests/bench/overlap_command.h"
#include "tests/bench/protocol_command.h"
#include "tests/bench/server_command.h"

namespace edgedraft::bench {
namespace {

struct Options {
  AcceptanceOptions acceptance;
  AgreementOptions agreement;
  DetectorsOptions detectors;
  DeviceBenchOptions device;
  DraftersOptions drafters;
  EngineOptions engine;
  FingerprintOptions fingerprint;
  ModelOptions model;
  OverlapOptions overlap;
  ProtocolOptions protocol;
  ServerBenchOptions server;
};

int main_with(int argc, char** argv) {
  Options o;
  Program program(
      {.name = "edgedraft-bench",
       .what = "Measures the parts of Edgedraft, each against its own limit in the same run.",
       .version = "edgedraft-bench " EDGEDRAFT_VERSION,
       .default_file = "edgedraft-bench.toml"});
  program.command("acceptance", "Acceptance length on held-out prompts", o.acceptance,
                  declare_acceptance, run_acceptance);
  program.command("agreement", "Does a model repeat another implementation's ids?", o.agreement,
                  declare_agreement, run_agreement);
  program.command("detectors", "How much of private text is found without a mark", o.detectors,
                  declare_detectors, run_detectors);
  program.command("device", "A drafter's operations and steps on a Vulkan device", o.device,
                  declare_device, run_device);
  program.command("drafters", "Drafters of one target beside each other", o.drafters,
                  declare_drafters, run_drafters);
  program.command("engine", "Passes of a decoder by number of rows", o.engine, declare_engine,
                  run_engine);
  program.command("fingerprint", "Can an observer of the network tell prompts apart?",
                  o.fingerprint, declare_fingerprint, run_fingerprint);
  program.command("model", "Write a model of random weights", o.model, declare_model, run_model);
  program.command("overlap", "Answers without waiting for verdicts, over networks", o.overlap,
                  declare_overlap, run_overlap);
  program.command("protocol", "Bytes of a cycle against the formula", o.protocol, declare_protocol,
                  run_protocol);
  program.command("server", "One server, many devices", o.server, declare_server, run_server);
  return program.main(argc, argv);
}

}  // namespace
}  // namespace edgedraft::bench

int main(int argc, char** argv) {
  return edgedraft::bench::main_with(argc, argv);
}
