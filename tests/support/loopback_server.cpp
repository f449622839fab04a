#include "tests/support/loopback_server.h"

#include <string>
#include <utility>

#include "server/passes/scheduler.h"
#include "server/program/application.h"
#include "server/program/model_host.h"
#include "shared/base/log.h"
#include "shared/net/identity.h"
#include "shared/net/listener.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {
using namespace server;

class LoopbackServer::Impl {
 public:
  Impl(std::unique_ptr<Backend> backend, std::unique_ptr<ModelHost> host,
       const LoopbackServerOptions& options)
      : backend_(std::move(backend)),
        host_(std::move(host)),
        identity_(load_or_create_identity(directory_.path()).value()),
        scheduler_(
            host_->session_parts(),
            {.passes = {.sessions = {.sessions_max = options.sessions_max, .kv_bytes_max = 0},
                        .pace = [pace = options.pass_pace](std::uint32_t) { return pace; }},
             .queue_max = 16 * options.sessions_max}),
        application_(*host_, scheduler_, application_options(options), *log_),
        listener_({.address = "127.0.0.1", .port = 0, .protocol = {}},
                  make_server_context({.certificate_file = identity_.certificate_file,
                                       .key_file = identity_.key_file,
                                       .client_ca_file = {}})
                      .value(),
                  application_) {}

  void set_sign_in(SignIn sign_in) { application_.set_sign_in(std::move(sign_in)); }
  ClientLinkOptions link_options(const BundleFile& bundle) const {
    return {.host = "127.0.0.1",
            .port = std::to_string(listener_.port()),
            .tls = {.pin = identity_.pin},
            .protocol = {.hello = bundle.hello(), .channel = {}},
            .back_off = {},
            .jitter_seed = 1};
  }

 private:
  static ApplicationOptions application_options(const LoopbackServerOptions& options) {
    ApplicationOptions made{.sign_in = options.sign_in, .agent = "loopback"};
    if (options.wall_time) made.wall_time = options.wall_time;
    return made;
  }

  test::TemporaryDirectory directory_;
  std::shared_ptr<spdlog::logger> log_ = make_logger("off");
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ModelHost> host_;
  TlsIdentity identity_;
  Scheduler scheduler_;
  Application application_;
  Listener listener_;
};

Result<std::unique_ptr<LoopbackServer>> LoopbackServer::start(
    const LoopbackServerOptions& options) {
  auto backend = make_cpu_backend({.threads = 0});
  auto host = ModelHost::load(
      *backend, {.model = options.model, .bundles = options.bundles, .context_count = 0});
  if (!host) return host.error();
  auto impl = std::make_unique<Impl>(std::move(backend), std::move(*host), options);
  return std::unique_ptr<LoopbackServer>(new LoopbackServer(std::move(impl)));
}

LoopbackServer::LoopbackServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoopbackServer::~LoopbackServer() = default;

void LoopbackServer::set_sign_in(SignIn sign_in) {
  impl_->set_sign_in(std::move(sign_in));
}

ClientLinkOptions LoopbackServer::link_options(const BundleFile& bundle) const {
  return impl_->link_options(bundle);
}

}  // namespace edgedraft::testing
