#include "client/commands/report.h"
#include "netsim/lab/commands.h"
#include "shared/program/program.h"

int main(int argc, char** argv) {
  using namespace edgedraft;
  lab::LabRunOptions run;
  lab::LabServerOptions server;
  Program program({.name = "edgedraft-lab",
                   .what = "Client and server with changes for experiments",
                   .version = "edgedraft-lab " EDGEDRAFT_VERSION,
                   .default_file = "lab.toml"});
  program.write_errors_as(client::to_json);
  program.command("run", "Answer one prompt (edgedraft run)", run, lab::declare_lab_run,
                  lab::run_in_lab);
  program.command("server", "Serve the target (edgedraft-server)", server, lab::declare_lab_server,
                  lab::serve_in_lab);
  return program.main(argc, argv);
}
