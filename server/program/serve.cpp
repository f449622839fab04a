#include "server/program/serve.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/metrics/pages.h"
#include "server/passes/scheduler.h"
#include "server/program/application.h"
#include "server/program/credentials.h"
#include "server/program/device.h"
#include "server/program/model_host.h"
#include "server/program/signals.h"
#include "server/program/speculator.h"
#include "server/proposers/speculation.h"
#include "shared/base/log.h"
#include "shared/model/gguf_parts.h"
#include "shared/net/listener.h"
#include "shared/net/listening.h"
#include "shared/program/endpoint.h"

namespace edgedraft::server {
namespace {

// The listener's statistics; empty before it exists and after it is gone.
//
// Threads   any
class WatchedListener {
 public:
  // The listener is available for the lifetime of this object.
  class Hold {
   public:
    Hold(WatchedListener& watched, const Listener& listener) : watched_(watched) {
      watched_.watch(&listener);
    }
    ~Hold() { watched_.watch(nullptr); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    WatchedListener& watched_;
  };

  ListenerStats stats() const {
    const std::lock_guard lock(mutex_);
    return listener_ != nullptr ? listener_->stats() : ListenerStats{};
  }

 private:
  void watch(const Listener* listener) {
    const std::lock_guard lock(mutex_);
    listener_ = listener;
  }

  mutable std::mutex mutex_;
  const Listener* listener_ = nullptr;
};

constexpr const char* kVersion = "edgedraft-server " EDGEDRAFT_VERSION;

std::uint64_t model_bytes(const std::filesystem::path& path) {
  std::uint64_t total = 0;
  for (const std::filesystem::path& file : gguf_files_of(path)) {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(file, error);
    if (error) return 0;
    total += bytes;
  }
  return total;
}

// Null if the server does not draft.
Result<std::unique_ptr<Speculation>> speculation_of(const ServerOptions& o, ModelHost& host,
                                                    Backend& backend, spdlog::logger& log) {
  if (auto good = check_indexes(o.models.indexes, o.speculate); !good) return good.error();
  if (o.speculate.empty()) return std::unique_ptr<Speculation>();
  SpeculationOptions options{
      .context_count = host.context_count(), .on_failure = [&log](const std::string& why) {
        log.warn("server drafting failed: {}; the session streams plainly", why);
      }};
  auto probing = probing_source_of(o.speculate, host, backend);
  if (!probing) return probing.error();
  if (*probing) {
    log.info("server drafting by {} if a row of a pass saves more time than it costs", o.speculate);
    return std::make_unique<Speculation>(**std::move(probing), options);
  }
  const auto drafter = speculating_drafter(host, o.speculate);
  if (!drafter) return drafter.error();
  if (o.hooks.set_speculation) {
    if (auto set = o.hooks.set_speculation(options, drafter->model->facts()); !set) {
      return set.error();
    }
  }
  ProposerSource source =
      drafter_source(backend, *drafter->model, drafter->tap, host.context_count());
  source.joins_hints = drafter->joins_hints;
  auto made = std::make_unique<Speculation>(std::move(source), options);
  log.info("server drafting with {} if clients' drafts are missing, {} KiB per session",
           drafter->name, made->session_bytes() >> 10);
  return made;
}

// The monitoring endpoint; null if not configured.
Result<std::unique_ptr<HttpServer>> open_metrics(const ServerOptions& o, MonitoredServer server,
                                                 spdlog::logger& log) {
  if (o.metrics.empty()) return std::unique_ptr<HttpServer>();
  const auto endpoint = parse_endpoint(o.metrics, EndpointUse::listen);
  if (!endpoint) return Error{Errc::usage, "--metrics: " + endpoint.error().message};
  if (!is_loopback(endpoint->host)) {
    log.warn(
        "--metrics {}: anyone who can reach this address can read the server's load; keep it "
        "inside your network",
        o.metrics);
  }
  try {
    auto opened = std::make_unique<HttpServer>(
        HttpServerOptions{
            .address = endpoint->host,
            .port = endpoint->port,
            .on_failure = [&log](const std::string& what) { log.error("--metrics: {}", what); }},
        page_handler([server = std::move(server)](std::string_view path) {
          return monitoring_page(server, path);
        }));
    log.info("metrics at http://{}/metrics", to_string(Endpoint{endpoint->host, opened->port()}));
    return opened;
  } catch (const ListenError& e) {
    return Error{Errc::io, "--metrics " + std::string(e.what())};
  }
}

// Checked before a large model is loaded, which takes minutes.
Result<void> check_address(const Endpoint& endpoint) {
  try {
    check_listenable(endpoint.host, endpoint.port);
    return {};
  } catch (const ListenError& e) {
    return Error{Errc::io, "--listen " + std::string(e.what())};
  }
}

void log_device_changes(Health& health, spdlog::logger& log) {
  health.on_change([&log](Health::Device device, const std::string& reason) {
    switch (device) {
      case Health::Device::works:
        log.info("the device works again");
        break;
      case Health::Device::failed:
        log.error("the device failed; affected sessions start over: {}", reason);
        break;
      case Health::Device::lost:
        log.error(
            "the device is lost; no client is served until it works again or the server is "
            "restarted: {}",
            reason);
        break;
    }
  });
}

void reload(const CredentialFiles& files, SignIn& sign_in, Listener& listener,
            Application& application, Metrics& metrics, spdlog::logger& log) {
  auto read = reread_credentials(files, sign_in);
  if (!read) {
    log.error("SIGHUP: nothing was reloaded: {}", read.error().message);
    return;
  }
  listener.set_tls(read->tls);
  sign_in = std::move(read->sign_in);
  application.set_sign_in(sign_in);
  metrics.certificate_expiry.set(static_cast<std::uint64_t>(read->identity.expires_at));
  const bool stays = read->sign_in_stays;
  const std::string secret =
      sign_in.tenants ? fmt::format("list of {} tenants", sign_in.tenants->count()) : "token";
  log.info(
      "SIGHUP: certificate{} reloaded for new connections; pin {}{}", stays ? "" : " and " + secret,
      read->identity.pin,
      stays ? "; the " + secret + " is unchanged because its source cannot be read again" : "");
}

// Measures pass costs for the first hint choices. Throws DeviceError: a device that fails here
// would fail clients, too.
std::vector<PassTime> measure_passes(PassLoop& loop, double seconds_max, spdlog::logger& log) {
  if (seconds_max <= 0) return {};
  const auto measured = loop.measure_costs(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds_max)));
  if (measured.passes.empty()) {
    log.info("--measure {} was too short: pass times will be learned while serving", seconds_max);
    return {};
  }
  std::string passes;
  std::vector<PassTime> times;
  for (const StartSample& pass : measured.passes) {
    times.push_back({.rows = pass.rows,
                     .microseconds = static_cast<std::uint32_t>(
                         std::clamp(1e6 * seconds(pass.time), 1.0, 4e9))});
    passes += fmt::format("{}{:.3g} ms for {}", passes.empty() ? "" : ", ",
                          1e3 * seconds(pass.time), pass.rows);
  }
  log.info("pass times by rows: {} (measured for {:.1f} s)", passes, seconds(measured.took));
  return times;
}

Result<int> serve(const ServerOptions& o) {
  if (o.models.model.empty()) {
    return Error{Errc::usage, "--model is missing: give --model FILE.gguf (see --help)"};
  }
  const auto endpoint = parse_endpoint(o.listen, EndpointUse::listen);
  if (!endpoint) return Error{Errc::usage, "--listen: " + endpoint.error().message};
  const CredentialFiles files{.listen_host = endpoint->host,
                              .state = o.state,
                              .token = o.token_file,
                              .tenants = o.tenants,
                              .certificate = o.tls_cert,
                              .key = o.tls_key,
                              .client_ca = o.client_ca};
  const auto credentials = read_credentials(files);
  if (!credentials) return credentials.error();
  const auto log =
      make_logger(o.log_level, o.log_format == "json" ? LogFormat::json : LogFormat::text);
  const auto metrics = std::make_shared<Metrics>();
  metrics->certificate_expiry.set(static_cast<std::uint64_t>(credentials->identity.expires_at));
  log_device_changes(metrics->health, *log);
  Signals signals;
  WatchedListener watched;
  const auto monitors = open_metrics(o,
                                     {.metrics = *metrics,
                                      .listener = [&watched] { return watched.stats(); },
                                      .version = EDGEDRAFT_VERSION},
                                     *log);
  if (!monitors) return monitors.error();
  if (auto free = check_address(*endpoint); !free) return free.error();

  std::optional<EndOnSignal> loading(std::in_place);
  auto device = open_device({.device = o.device,
                             .threads = o.threads,
                             .deterministic = o.deterministic,
                             .cuda_graphs = !o.no_cuda_graphs,
                             .on_notice = [&log](const std::string& what) { log->warn(what); },
                             .upload_label = "loading " + o.models.model.filename().string(),
                             .upload_bytes = model_bytes(o.models.model)});
  if (!device) return device.error();
  log->info("computing on {}", device->reason);
  auto host = ModelHost::load(*device->backend, o.models);
  if (!host) return host.error();
  device->upload.reset();
  if (o.hooks.on_loaded) {
    if (auto taken = o.hooks.on_loaded(**host); !taken) return taken.error();
  }
  SessionParts parts = (*host)->session_parts();
  parts.kv_type = cache_type_from_name(o.kv_type).value();
  auto speculation = speculation_of(o, **host, *device->backend, *log);
  if (!speculation) return speculation.error();
  std::uint64_t kv_memory = o.kv_memory;
  if (*speculation && kv_memory > 0) {
    const auto left = (*speculation)->take_part_of(kv_memory, SessionStore::session_bytes(parts));
    if (!left) return left.error();
    kv_memory = *left;
  }
  const SessionStore::Limits limits{.sessions_max = o.sessions_max,
                                    .kv_bytes_max = kv_memory,
                                    .device_bytes = device->memory_bytes,
                                    .scratch_bytes = device->scratch_bytes,
                                    .reuses_beginnings = !o.no_prefix_cache};
  if (auto checked = SessionStore::check(parts, limits); !checked) return checked.error();
  log->info(
      "{}: context {} tokens, at most {:g} MiB per session with a KV cache in {}, {} drafter{}",
      (*host)->name(), (*host)->context_count(),
      static_cast<double>(SessionStore::session_bytes(parts)) / (1 << 20), o.kv_type,
      (*host)->drafters().size(), (*host)->drafters().size() == 1 ? "" : "s");
  if ((*host)->context_count() > (*host)->model_context_count()) {
    log->warn("--ctx {}: the model was trained for {} tokens; answers beyond them may be nonsense",
              (*host)->context_count(), (*host)->model_context_count());
  }

  PassLoopOptions passes;
  passes.sessions = limits;
  passes.economy = o.economy == "on"    ? Economy::on
                   : o.economy == "off" ? Economy::off
                                        : Economy::as_asked;
  passes.wait_max = std::chrono::seconds(o.wait_max_s);
  passes.speculation = speculation->get();
  passes.on_session_fault = [&log](const std::string& why) {
    log->error("a session was dropped after an internal error: {}", why);
  };
  passes.metrics = metrics;
  if (o.hooks.set_passes) o.hooks.set_passes(passes);
  std::vector<PassTime> pass_times;
  Scheduler scheduler(parts,
                      {.passes = passes, .queue_max = o.queue_max, .prepare = [&](PassLoop& loop) {
                         pass_times = measure_passes(loop, o.measure_s, *log);
                       }});
  const std::uint64_t copy = RecurrentStates::copy_bytes(parts.decoder.config());
  log->info(
      "KV caches of all sessions: at most {:g} MiB{}{}",
      static_cast<double>(metrics->kv_bytes_max.value()) / (1 << 20),
      device->memory_bytes > 0 ? fmt::format(", of {} MiB of memory", device->memory_bytes >> 20)
                               : "",
      copy > 0
          ? fmt::format("; {} checkpoints of recurrent states, {:g} MiB each",
                        metrics->checkpoints_max.value(), static_cast<double>(copy) / (1 << 20))
          : "");
  // Clients may connect from here. A signal now waits for Signals::wait().
  loading.reset();
  Application application(
      **host, scheduler,
      {.sign_in = credentials->sign_in,
       .agent = kVersion,
       .compresses = o.compress == "gzip",
       .pass_times = std::move(pass_times),
       .replica = o.replica,
       .arithmetic = std::string(kVersion) + ", " + device->arithmetic + ", KV " + o.kv_type,
       .metrics = metrics},
      *log);
  Listener listener({.address = endpoint->host,
                     .port = endpoint->port,
                     .protocol = {},
                     .connections_max = o.connections_max},
                    credentials->tls, application);
  const WatchedListener::Hold hold(watched, listener);
  metrics->health.set_phase(Health::Phase::serving);
  std::cout << "ready " << to_string(Endpoint{endpoint->host, listener.port()}) << " pin "
            << credentials->identity.pin << std::endl;
  SignIn sign_in = credentials->sign_in;
  while (signals.wait() == Signals::Told::reload) {
    reload(files, sign_in, listener, application, *metrics, *log);
  }
  metrics->health.set_phase(Health::Phase::draining);
  log->info("stopping: {} connections, {} s for answers to finish", listener.stats().open,
            o.drain_timeout_s);
  listener.drain(std::chrono::seconds(o.drain_timeout_s));
  listener.stop(std::chrono::seconds(5));
  if (!scheduler.stop(std::chrono::seconds(5))) {
    log->warn(
        "a pass is still running five seconds after the last client left: exiting without it");
    log->flush();
    // The compute thread uses objects that a return would destroy.
    std::_Exit(0);
  }
  return 0;
}

}  // namespace

Result<int> serve_clients(const ServerOptions& o) {
  try {
    return serve(o);
  } catch (const DeviceError& e) {
    // An unusable device, for example with too little memory, is an option error.
    return Error{Errc::unsupported, e.what()};
  }
}

}  // namespace edgedraft::server
