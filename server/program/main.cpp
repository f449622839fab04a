#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "server/metrics/http_endpoint.h"
#include "server/metrics/pages.h"
#include "server/metrics/watched_listener.h"
#include "server/passes/scheduler.h"
#include "server/program/application.h"
#include "server/program/device.h"
#include "server/program/model_host.h"
#include "server/program/signals.h"
#include "server/proposers/speculation.h"
#include "shared/base/log.h"
#include "shared/model/gguf_parts.h"
#include "shared/net/identity.h"
#include "shared/net/listener.h"
#include "shared/program/endpoint.h"
#include "shared/program/options.h"
#include "shared/program/pace_profile.h"
#include "shared/program/program.h"
#include "shared/program/token_file.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"

namespace edgedraft {
namespace {

constexpr const char* kVersion = "edgedraft-server " EDGEDRAFT_VERSION;

struct ServerOptions {
  ModelHostOptions models;
  std::string listen = "127.0.0.1:7420";
  std::filesystem::path state = state_directory() / "server";
  std::filesystem::path token_file;
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
  std::uint32_t connections_max = 1024;
  std::uint32_t queue_max = 1024;
  std::uint32_t wait_max_s = 60;
  std::uint32_t row_budget = 0;
  std::string metrics;
  std::uint32_t drain_timeout_s = 30;
  double measure_s = 1.0;
  std::uint32_t pace_ms = 0;
  std::filesystem::path pace_profile;
  std::string speculate;
  std::string log_level = "info";
  std::string log_format = "text";
};

void declare_options(CLI::App& app, ServerOptions& o) {
  app.add_option("--model", o.models.model, "The target; of a model in several files any of them")
      ->type_name("FILE.gguf");
  app.add_option("--bundle", o.models.bundles,
                 "A drafter that clients may use (repeatable); the same file as theirs")
      ->type_name("FILE.gguf");
  app.add_option("--listen", o.listen, "Address and port; port 0 takes a free one")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen))
      ->capture_default_str();
  app.add_option("--state", o.state, "Where the server keeps its key and certificate")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--token-file", o.token_file,
                 "File with the token that clients must show: its only line, not readable for "
                 "everybody; needed beyond loopback")
      ->type_name("FILE");
  app.add_option("--tls-cert", o.tls_cert, "Certificate chain (PEM) instead of a self-signed one")
      ->type_name("FILE");
  app.add_option("--tls-key", o.tls_key, "Its private key (PEM)")->type_name("FILE");
  app.add_option("--client-ca", o.client_ca, "Clients need a certificate signed by this CA (PEM)")
      ->type_name("FILE");
  app.add_option("--device", o.device,
                 "Where to compute: auto (a GPU where there is one), cpu, cuda or cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  app.add_flag("--deterministic", o.deterministic,
               "On a GPU: sums in one order whatever shares a pass, so that drafted output equals "
               "plain output bit for bit; wide passes are slower. The CPU is so always");
  app.add_flag("--no-cuda-graphs", o.no_cuda_graphs,
               "On a GPU: start every kernel by itself, not passes that come again in one call. "
               "Slower for small models; to find out where a fault comes from");
  app.add_option("--threads", o.threads, "Threads of a pass; 0: one a core")->capture_default_str();
  app.add_option("--ctx", o.models.context_count,
                 "Tokens a session can hold; 0: as the model was made")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--max-sessions", o.sessions_max, "Sessions held at once, idle ones included")
      ->type_name("N")
      ->check(in_range(1u, 65536u))
      ->capture_default_str();
  app.add_option(
         "--kv-memory", o.kv_memory,
         "Memory of all sessions' keys and values, e.g. 2GB, taken at the start. When it is "
         "full, prompts wait and idle sessions are dropped, whose clients then send them "
         "again. What is not in use keeps beginnings of prompts that may come again from "
         "the same identity. 0: enough for --max-sessions of --ctx tokens, at most half of "
         "the device's memory")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--kv-type", o.kv_type,
                 "Numbers of keys and values: f32, f16 or bf16. 16 bits take half the memory, so "
                 "that twice the tokens fit into --kv-memory, and less time in long contexts. "
                 "Answers may differ a little from those with f32, but drafted output equals plain "
                 "output with each; f16 is the closer one (11 bits of precision against 8)")
      ->check(one_of({"f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_option("--max-connections", o.connections_max,
                 "Connections at once; further ones are closed")
      ->type_name("N")
      ->check(in_range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--max-queue", o.queue_max,
                 "Requests that may wait for a pass; further ones are refused")
      ->type_name("N")
      ->check(in_range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--max-wait", o.wait_max_s,
                 "How long a request may wait for its first pass before it is refused; 0: for ever")
      ->type_name("SECONDS")
      ->check(in_range(0u, 86400u))
      ->capture_default_str();
  app.add_option(
         "--row-budget", o.row_budget,
         "Rows of a draft, root included, that clients are told to keep to, for experiments "
         "that compare trees. 0: as many as give all clients together the most tokens a "
         "second, by load and by what passes cost")
      ->type_name("ROWS")
      ->check(in_range(0u, kMaskRowsMax))
      ->capture_default_str();
  app.add_option("--metrics", o.metrics,
                 "Serve /metrics (Prometheus), /health and /ready there, by plain HTTP to whoever "
                 "asks; off unless given")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen));
  app.add_option("--drain-timeout", o.drain_timeout_s,
                 "How long answers may go on after SIGTERM before their clients are left alone")
      ->type_name("SECONDS")
      ->check(in_range(0u, 86400u))
      ->capture_default_str();
  app.add_option("--measure", o.measure_s,
                 "How long passes may be measured before the first client is served, so that row "
                 "budgets are right from the start; a pass that has begun is not broken off. 0: "
                 "they are learned while serving")
      ->type_name("SECONDS")
      ->check(in_range(0.0, 3600.0))
      ->capture_default_str();
  CLI::Option* pace_ms =
      app.add_option("--pace-ms", o.pace_ms,
                     "Least time of a target pass: a small model at a large one's pace")
          ->type_name("MS")
          ->capture_default_str();
  app.add_option("--pace-profile", o.pace_profile,
                 "The same by a device profile (TOML): time of a pass by its number of rows")
      ->type_name("FILE")
      ->excludes(pace_ms);
  app.add_option(
         "--speculate", o.speculate,
         "Draft on the server for clients that stream: the name of a --bundle (its file's, "
         "without folder and ending) or auto. The answers stay the same; trees are as large "
         "as pays. Drafters' caches have a part of --kv-memory; without any left a session "
         "is streamed to plainly")
      ->type_name("NAME|auto");
  app.add_option("--log-level", o.log_level, "trace, debug, info, warn, error or off")
      ->check(is_log_level())
      ->capture_default_str();
  app.add_option("--log-format", o.log_format, "text, or json: an object a line")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  app.footer(
      "Prints one line, `ready HOST:PORT pin sha256:HEX`, when it accepts clients; give the pin to "
      "them.\n"
      "Example:\n"
      "  edgedraft-server --model target.gguf --bundle drafter.gguf\n"
      "  edgedraft-server --model target.gguf --bundle drafter.gguf --speculate auto\n"
      "SIGTERM and Ctrl-C let answers end (--drain-timeout) and say goodbye to the clients, who go "
      "on offline or elsewhere; a second one ends at once. SIGHUP reads certificate, key, client "
      "CA and token anew.");
}

Result<std::optional<std::string>> read_token(const ServerOptions& o, const Endpoint& endpoint) {
  if (o.token_file.empty()) {
    if (is_loopback(endpoint.host) || !o.client_ca.empty()) return std::optional<std::string>();
    return Error{Errc::usage, "--listen " + endpoint.host +
                                  ": beyond loopback clients have to sign in. Give --token-file "
                                  "(for example: (umask 077; openssl rand -hex 32 > token)) or "
                                  "--client-ca"};
  }
  auto token = read_token_file(o.token_file, kBearerTokenBytesMax);
  if (!token) return Error{token.error().code, "--token-file " + token.error().message};
  return std::optional(*std::move(token));
}

Result<TlsIdentity> identity_of(const ServerOptions& o) {
  if (o.tls_cert.empty() != o.tls_key.empty()) {
    return Error{Errc::usage, "--tls-cert and --tls-key go together"};
  }
  if (!o.tls_cert.empty()) return load_identity(o.tls_cert, o.tls_key);
  return load_or_create_identity(o.state);
}

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

// What passes and drafting steps take at least.
struct Pace {
  std::function<Duration(std::uint32_t rows)> pass;  // empty where nothing is paced
  PaceProfile profile;
};

Result<Pace> pace_of(const ServerOptions& o) {
  std::function<Duration(std::uint32_t)> pace;
  if (o.pace_ms > 0) {
    pace = [least = std::chrono::milliseconds(o.pace_ms)](std::uint32_t) { return least; };
  }
  if (o.pace_profile.empty()) return Pace{.pass = pace, .profile = {}};
  auto profile = PaceProfile::read(o.pace_profile);
  if (!profile) return Error{profile.error().code, "--pace-profile " + profile.error().message};
  if (profile->paces_target()) {
    pace = [profile = *profile](std::uint32_t rows) { return profile.target_pass(rows); };
  }
  return Pace{.pass = std::move(pace), .profile = *profile};
}

// The drafter that --speculate names.
Result<HostedDrafter*> speculating_drafter(ModelHost& host, const std::string& name) {
  std::string names;
  HostedDrafter* found = nullptr;
  for (HostedDrafter& drafter : host.drafters()) {
    names += (names.empty() ? "" : ", ") + drafter.name;
    // The one that sees the target's state drafts best.
    const bool wanted =
        name == "auto" ? found == nullptr || (!found->tap && drafter.tap) : drafter.name == name;
    if (wanted) found = &drafter;
  }
  if (found != nullptr) return found;
  return Error{Errc::usage,
               names.empty() ? "--speculate needs a drafter: give its file with --bundle, too"
                             : "--speculate " + name + ": no --bundle has that name; there are " +
                                   names + ", or give auto"};
}

// Null where the server does not draft.
Result<std::unique_ptr<Speculation>> speculation_of(const ServerOptions& o, ModelHost& host,
                                                    Backend& backend, const PaceProfile& profile,
                                                    spdlog::logger& log) {
  if (o.speculate.empty()) return std::unique_ptr<Speculation>();
  const auto drafter = speculating_drafter(host, o.speculate);
  if (!drafter) return drafter.error();
  auto made = Speculation::make(
      backend, *(*drafter)->model, (*drafter)->tap.get(),
      {.context_count = host.context_count(),
       .step_pace = profile.draft_step((*drafter)->model->facts().pace_name,
                                       PaceProfile::Place::beside_target),
       .on_failure = [&log](const std::string& why) {
         log.warn("drafting beside the target: {}; the session streams plainly", why);
       }});
  log.info("drafts with {} for clients that stream, {} KiB a session", (*drafter)->name,
           made->session_bytes() >> 10);
  return made;
}

// Whom clients may trust, and who may come in: what SIGHUP reads again.
struct Credentials {
  TlsIdentity identity;
  std::shared_ptr<TlsContext> tls;
  std::optional<std::string> token;
};

Result<Credentials> read_credentials(const ServerOptions& o, const Endpoint& endpoint) {
  auto token = read_token(o, endpoint);
  if (!token) return token.error();
  auto identity = identity_of(o);
  if (!identity) return identity.error();
  auto tls = make_server_context({.certificate_file = identity->certificate_file,
                                  .key_file = identity->key_file,
                                  .client_ca_file = o.client_ca});
  if (!tls) return tls.error();
  return Credentials{
      .identity = *std::move(identity), .tls = *std::move(tls), .token = *std::move(token)};
}

// The endpoint for monitors; nothing where none is wanted.
Result<std::unique_ptr<HttpEndpoint>> open_metrics(const ServerOptions& o, MonitoredServer server,
                                                   spdlog::logger& log) {
  if (o.metrics.empty()) return std::unique_ptr<HttpEndpoint>();
  const auto endpoint = parse_endpoint(o.metrics, EndpointUse::listen);
  if (!endpoint) return Error{Errc::usage, "--metrics: " + endpoint.error().message};
  if (!is_loopback(endpoint->host)) {
    log.warn(
        "--metrics {}: anybody who reaches that address can read how busy this server is; keep it "
        "within your network",
        o.metrics);
  }
  try {
    auto opened = std::make_unique<HttpEndpoint>(
        HttpEndpointOptions{
            .address = endpoint->host,
            .port = endpoint->port,
            .on_failure = [&log](const std::string& what) { log.error("--metrics: {}", what); }},
        [server = std::move(server)](std::string_view path) {
          return monitoring_page(server, path);
        });
    log.info("metrics at http://{}/metrics", to_string(Endpoint{endpoint->host, opened->port()}));
    return opened;
  } catch (const boost::system::system_error& e) {
    return Error{Errc::io, "--metrics " + o.metrics + ": " + e.code().message()};
  }
}

void log_device_changes(Health& health, spdlog::logger& log) {
  health.on_change([&log](Health::Device device, const std::string& reason) {
    switch (device) {
      case Health::Device::works:
        log.info("the device works again");
        break;
      case Health::Device::failed:
        log.error("the device failed, and the sessions concerned begin anew: {}", reason);
        break;
      case Health::Device::lost:
        log.error("the device is lost, and nobody can be served until a restart: {}", reason);
        break;
    }
  });
}

void reload(const ServerOptions& o, const Endpoint& endpoint, Listener& listener,
            Application& application, Metrics& metrics, spdlog::logger& log) {
  auto read = read_credentials(o, endpoint);
  if (!read) {
    log.error("SIGHUP: everything stays as it was: {}", read.error().message);
    return;
  }
  listener.set_tls(read->tls);
  application.set_token(std::move(read->token));
  metrics.certificate_expiry.set(static_cast<std::uint64_t>(read->identity.expires_at));
  log.info("SIGHUP: certificate and token read anew, for connections from now on; pin {}",
           read->identity.pin);
}

// So that the first clients are told what passes cost.
void measure_passes(PassLoop& loop, ModelHost& host, double seconds_max, spdlog::logger& log) {
  if (seconds_max <= 0) return;
  std::vector<Tap*> taps;
  for (const HostedDrafter& drafter : host.drafters()) {
    if (drafter.tap) taps.push_back(drafter.tap.get());
  }
  try {
    const auto measured = loop.measure_costs(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds_max)), taps);
    if (!measured.passes.empty()) {
      std::string passes;
      for (const StartCosts::Sample& pass : measured.passes) {
        passes += fmt::format("{}{:.3g} ms for {}", passes.empty() ? "" : ", ",
                              1e3 * seconds(pass.time), pass.count);
      }
      log.info("passes by rows: {} (measured for {:.1f} s)", passes, seconds(measured.took));
    } else {
      log.info("what a pass takes will be learned while serving: --measure {} was too short",
               seconds_max);
    }
  } catch (const DeviceError& e) {
    log.warn("what a pass takes could not be measured: {}", e.what());
  }
}

Result<int> serve(const ServerOptions& o) {
  if (o.models.model.empty()) {
    return Error{Errc::usage, "which model? Give --model FILE.gguf (see --help)"};
  }
  const auto endpoint = parse_endpoint(o.listen, EndpointUse::listen);
  if (!endpoint) return Error{Errc::usage, "--listen: " + endpoint.error().message};
  const auto credentials = read_credentials(o, *endpoint);
  if (!credentials) return credentials.error();
  auto pace = pace_of(o);
  if (!pace) return pace.error();
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
  loading.reset();
  SessionParts parts = (*host)->session_parts();
  parts.kv_type = dtype_from_name(o.kv_type).value();
  auto speculation = speculation_of(o, **host, *device->backend, pace->profile, *log);
  if (!speculation) return speculation.error();
  std::uint64_t kv_memory = o.kv_memory;
  if (*speculation && kv_memory > 0) {
    // As many drafters as sessions, if all are as long as can be.
    const std::uint64_t drafter = (*speculation)->session_bytes();
    const std::uint64_t for_drafters =
        kv_memory / (SessionStore::session_bytes(parts) + drafter) * drafter;
    (*speculation)->set_bytes_max(for_drafters);
    kv_memory -= for_drafters;
  }
  const SessionStore::Limits limits{.sessions_max = o.sessions_max,
                                    .kv_bytes_max = kv_memory,
                                    .device_bytes = device->memory_bytes};
  if (auto checked = SessionStore::check(parts, limits); !checked) return checked.error();
  log->info(
      "{}: context {} tokens, at most {} MiB a session with keys and values in {}, {} drafters",
      (*host)->name(), (*host)->context_count(), SessionStore::session_bytes(parts) >> 20,
      o.kv_type, (*host)->drafters().size());

  PassLoopOptions passes;
  passes.sessions = limits;
  passes.pace = std::move(pace->pass);
  passes.row_budget = o.row_budget;
  passes.wait_max = std::chrono::seconds(o.wait_max_s);
  passes.speculation = speculation->get();
  passes.on_session_fault = [&log](const std::string& why) {
    log->error("a session was dropped for a fault of ours: {}", why);
  };
  passes.metrics = metrics;
  Scheduler scheduler(parts,
                      {.passes = passes, .queue_max = o.queue_max, .prepare = [&](PassLoop& loop) {
                         measure_passes(loop, **host, o.measure_s, *log);
                       }});
  Application application(**host, scheduler,
                          {.token = credentials->token, .agent = kVersion, .metrics = metrics},
                          *log);
  Listener listener({.address = endpoint->host,
                     .port = endpoint->port,
                     .session = {},
                     .connections_max = o.connections_max},
                    credentials->tls, application);
  const WatchedListener::Hold hold(watched, listener);
  metrics->health.set_phase(Health::Phase::serving);
  std::cout << "ready " << to_string(Endpoint{endpoint->host, listener.port()}) << " pin "
            << credentials->identity.pin << std::endl;
  while (signals.wait() == Signals::Told::reload) {
    reload(o, *endpoint, listener, application, *metrics, *log);
  }
  metrics->health.set_phase(Health::Phase::draining);
  log->info("stopping: {} connections, {} s for answers to end", listener.stats().open,
            o.drain_timeout_s);
  listener.drain(std::chrono::seconds(o.drain_timeout_s));
  listener.stop(std::chrono::seconds(5));
  return 0;
}

int main_with(int argc, char** argv) {
  ServerOptions options;
  Program program({.name = "edgedraft-server",
                   .what = "The target of a split language model, behind TLS",
                   .version = kVersion,
                   .default_file = "server.toml"});
  program.only(options, declare_options, serve);
  return program.main(argc, argv);
}

}  // namespace
}  // namespace edgedraft

int main(int argc, char** argv) {
  return edgedraft::main_with(argc, argv);
}
