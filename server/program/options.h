#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "server/passes/pass_loop.h"
#include "server/program/model_host.h"
#include "server/proposers/speculation.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/program/options.h"

namespace CLI {
class App;
}

namespace edgedraft::server {

// Server hooks of the lab programs (netsim/lab). Empty ones change nothing.
struct ServerHooks {
  // An error ends the server.
  std::function<Result<void>(ModelHost&)> on_loaded;
  std::function<Result<void>(SpeculationOptions&, const DrafterFacts&)> set_speculation;
  std::function<void(PassLoopOptions&)> set_passes;
};

// Raw option values of edgedraft-server, each within its option's range.
struct ServerOptions {
  ModelHostOptions models;
  std::string listen = "127.0.0.1:7420";
  std::filesystem::path state = place_in(state_directory(), "server");
  std::filesystem::path token_file;
  std::filesystem::path tenants;
  std::filesystem::path tls_cert;
  std::filesystem::path tls_key;
  std::filesystem::path client_ca;
  std::string device = "auto";
  bool deterministic = false;
  bool no_cuda_graphs = false;
  std::uint32_t threads = 0;
  std::uint32_t sessions_max = 16;
  std::uint64_t kv_memory = 0;
  std::string kv_type = "f32";
  bool no_prefix_cache = false;
  std::uint32_t connections_max = 1024;
  std::uint32_t queue_max = 1024;
  std::uint32_t wait_max_s = 60;
  std::string economy = "auto";
  std::string compress = "gzip";
  std::string metrics;
  std::string replica;
  std::uint32_t drain_timeout_s = 30;
  double measure_s = 1.0;
  std::string speculate;
  std::string log_level = "info";
  std::string log_format = "text";
  ServerHooks hooks{};
};

void declare_server_options(CLI::App& app, ServerOptions& options);

}  // namespace edgedraft::server
