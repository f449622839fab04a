#include "server/program/options.h"
#include "server/program/serve.h"
#include "shared/program/program.h"

int main(int argc, char** argv) {
  edgedraft::server::ServerOptions options;
  edgedraft::Program program({.name = "edgedraft-server",
                              .what = "Serve the target of a split language model over TLS",
                              .version = "edgedraft-server " EDGEDRAFT_VERSION,
                              .default_file = "server.toml"});
  program.only(options, edgedraft::server::declare_server_options,
               edgedraft::server::serve_clients);
  return program.main(argc, argv);
}
