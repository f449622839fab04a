#include "server/program/options.h"

#include <CLI/CLI.hpp>

#include "server/proposers/probing_methods.h"
#include "shared/program/endpoint.h"
#include "shared/program/validators.h"
#include "shared/protocol/replica_name.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

void declare_server_options(CLI::App& app, ServerOptions& o) {
  app.add_option("--model", o.models.model, "Target model; for a split model, any of its files")
      ->type_name("FILE.gguf");
  app.add_option("--bundle", o.models.bundles,
                 "Drafter that clients may use (repeatable); they need the same file")
      ->type_name("FILE.gguf");
  app.add_option("--listen", o.listen, "Address and port; port 0 selects a free port")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen))
      ->capture_default_str();
  app.add_option("--state", o.state, "Folder of the server's key and certificate")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--token-file", o.token_file,
                 "File with the bearer token that clients must send (one line, not "
                 "world-readable); this, --tenants or --client-ca is required unless --listen is "
                 "a loopback address")
      ->type_name("FILE");
  app.add_option("--tenants", o.tenants,
                 "File with several tokens (TOML, not world-readable), instead of --token-file. "
                 "Each [[tenant]] has a name, token_sha256 or token, and optionally expires (date "
                 "or date-time), sessions (limit) and tokens_per_minute (limit on computed rows, "
                 "rejected drafts included). Sessions and prefix cache are separate per name")
      ->type_name("FILE.toml");
  app.add_option("--tls-cert", o.tls_cert, "Certificate chain (PEM) instead of a self-signed one")
      ->type_name("FILE");
  app.add_option("--tls-key", o.tls_key, "Private key of --tls-cert (PEM)")->type_name("FILE");
  app.add_option(
         "--client-ca", o.client_ca,
         "Require client certificates signed by this CA (PEM). Certificates on a revocation "
         "list in the same file are refused")
      ->type_name("FILE");
  app.add_option("--device", o.device, "Device: auto (a GPU if available), cpu, cuda or cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  app.add_flag(
      "--deterministic", o.deterministic,
      "On a GPU: sum in an order that does not depend on the other rows of a pass, so that "
      "drafted output equals plain output bit for bit. Slower for wide passes; the CPU "
      "always does this");
  app.add_flag(
      "--no-cuda-graphs", o.no_cuda_graphs,
      "On a GPU: launch each kernel separately instead of replaying CUDA graphs. Slower for "
      "small models; for debugging");
  app.add_option("--threads", o.threads, "Threads per pass; 0: one per fast core")
      ->type_name("N")
      ->check(in_range(0u, 1024u))
      ->capture_default_str();
  app.add_option("--ctx", o.models.context_count,
                 "Context length of a session in tokens; 0: the model's own limit")
      ->type_name("N")
      ->check(in_range(0u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--max-sessions", o.sessions_max,
                 "Maximum number of sessions, including idle ones")
      ->type_name("N")
      ->check(in_range(1u, 65536u))
      ->capture_default_str();
  app.add_option(
         "--kv-memory", o.kv_memory,
         "Memory for the KV caches of all sessions, e.g. 2GB (units of 1024), allocated at the "
         "start. When it is full, prompts wait and idle sessions are evicted; their clients send "
         "them again. Unused memory holds the prefix cache: prefixes of prompts that the same "
         "identity may send again. 0: enough for --max-sessions sessions of --ctx tokens each, at "
         "most half of the device's memory")
      ->type_name("BYTES")
      ->transform(as_byte_size());
  app.add_option("--kv-type", o.kv_type,
                 "Element type of the KV cache: f32, f16, bf16 or int8 (groups of 32 with a "
                 "scale). With 16 bits, twice as many tokens fit into --kv-memory, and long "
                 "contexts take less time; with int8, 3.5 times as many tokens fit. Answers may "
                 "differ slightly from those with f32, but drafted output equals plain output "
                 "with each type; f16 is closer to f32 than bf16 (11 bits of precision against 8)")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}))
      ->capture_default_str();
  app.add_flag("--no-prefix-cache", o.no_prefix_cache,
               "Disable the prefix cache: compute every prompt in full. For measurements whose "
               "answers must not depend on earlier prompts");
  app.add_option(
         "--max-connections", o.connections_max,
         "Maximum number of connections; a further one replaces one that has not signed in, or "
         "is closed")
      ->type_name("N")
      ->check(in_range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--max-queue", o.queue_max,
                 "Maximum number of waiting and running requests, not counting paused ones; "
                 "further requests are refused")
      ->type_name("N")
      ->check(in_range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--max-wait", o.wait_max_s,
                 "Longest wait for a request's first pass, after which it is refused; 0: no limit")
      ->type_name("SECONDS")
      ->check(in_range(0u, 86400u))
      ->capture_default_str();
  app.add_option("--economy", o.economy,
                 "Hold passes for hints that are on their way: fewer passes per token, but slower "
                 "answers over long links. auto: as each client asks; on: for all clients that "
                 "send hints; off: never")
      ->type_name("MODE")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("--compress", o.compress,
                 "Compression of a prompt's activations: gzip or none; none saves server time on "
                 "fast links")
      ->type_name("HOW")
      ->check(CLI::IsMember({"gzip", "none"}))
      ->capture_default_str();
  app.add_option("--metrics", o.metrics,
                 "Serve /metrics (Prometheus), /health and /ready at this address, by plain HTTP "
                 "without sign-in; off by default")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen));
  app.add_option("--replica", o.replica,
                 "Name of this server among replicas behind a TCP balancer. Clients send it as "
                 "SNI when they connect again, so that the balancer can find this server")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        return is_replica_name(name) ? std::string()
                                     : "expected up to 63 lower-case letters, digits, hyphens and "
                                       "dots, as in a host name";
      });
  app.add_option("--drain-timeout", o.drain_timeout_s,
                 "Time for answers to finish after SIGTERM before their connections are closed")
      ->type_name("SECONDS")
      ->check(in_range(0u, 86400u))
      ->capture_default_str();
  app.add_option("--measure", o.measure_s,
                 "Longest time to measure passes before the first client is served, so that row "
                 "budgets are right from the start; a pass that has begun is finished. 0: learn "
                 "them while serving")
      ->type_name("SECONDS")
      ->check(in_range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option(
         "--speculate", o.speculate,
         "Draft on the server if a client's drafts are missing, in plain streams and between "
         "hints. NAME is a --bundle (its file name without folder and extension), auto, a "
         "weightless drafter (edgedraft run --help, --drafter), or a method that probes the "
         "target (" +
             probing_method_names() +
             "), optionally with a weightless drafter that fills the rest of the tree: "
             "METHOD+KIND. Answers do not change. Tree sizes and probes adapt to what pays off. "
             "Drafter caches take part of --kv-memory; a session without room for one is "
             "streamed plainly")
      ->type_name("NAME|auto");
  app.add_option("--index", o.models.indexes,
                 "Index of public texts for a --speculate drafter that copies from it, made by "
                 "`edgedraft index --public`; repeatable")
      ->type_name("FILE");
  app.add_option("--log-level", o.log_level, "Log level: trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->check(is_log_level())
      ->capture_default_str();
  app.add_option("--log-format", o.log_format,
                 "Format of the log: text, or json with one object per line")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.footer(
      "Prints `ready HOST:PORT pin sha256:HEX` when it accepts clients, which need the pin.\n"
      "Examples:\n"
      "  edgedraft-server --model target.gguf --bundle drafter.gguf\n"
      "  edgedraft-server --model target.gguf --bundle drafter.gguf --speculate auto\n"
      "After SIGTERM or Ctrl-C, answers finish within --drain-timeout; then the clients are "
      "disconnected and continue offline or elsewhere. A second signal ends the server at once. "
      "SIGHUP reloads certificate, key, client CA and token or tenants.");
}

}  // namespace edgedraft::server
