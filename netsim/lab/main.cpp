#include "client/commands/report.h"
#include "netsim/lab/run_command.h"
#include "netsim/lab/server_command.h"
#include "shared/program/program.h"

int main(int argc, char** argv) {
  using namespace edgedraft;
  LabRunOptions run;
  LabServerOptions server;
  Program program({.name = "edgedraft-lab",
                   .what = "Client and server with changes for experiments",
                   .version = "edgedraft-lab " EDGEDRAFT_VERSION,
                   .default_file = "lab.toml"});
  program.write_errors_as(to_json);
  program.command("run", "Answer one prompt (edgedraft run)", run, declare_lab_run, run_in_lab);
  program.command("server", "Serve the target (edgedraft-server)", server, declare_lab_server,
                  serve_in_lab);
  return program.main(argc, argv);
}
