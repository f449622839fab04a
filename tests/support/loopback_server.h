#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "client/engine/bundle_file.h"
#include "server/program/tenants.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/net/client_link.h"

namespace edgedraft::testing {
using namespace client;

struct LoopbackServerOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> bundles;
  std::uint32_t sessions_max = 1;
  Duration pass_pace{};  // minimum time per pass
  server::SignIn sign_in{};
  std::function<server::WallTime()> wall_time{};  // empty: the system's
};

// A whole server in the test's process: a target behind TLS on a free port of the loopback.
class LoopbackServer {
 public:
  // Errors    if a file cannot be loaded
  static Result<std::unique_ptr<LoopbackServer>> start(const LoopbackServerOptions& options);
  ~LoopbackServer();

  // Options of a link to it for that bundle's drafter.
  ClientLinkOptions link_options(const BundleFile& bundle) const;
  // As after a SIGHUP.
  void set_sign_in(server::SignIn sign_in);

 private:
  class Impl;
  explicit LoopbackServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace edgedraft::testing
