#include "server/program/options.h"

#include <CLI/CLI.hpp>

#include "server/proposers/probing_methods.h"
#include "shared/program/endpoint.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

void declare_server_options(CLI::App& app, ServerOptions& o) {
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
                 "File with the token that clients must show: its only line, not readable by "
                 "everybody; needed beyond loopback")
      ->type_name("FILE");
  app.add_option("--tls-cert", o.tls_cert, "Certificate chain (PEM) instead of a self-signed one")
      ->type_name("FILE");
  app.add_option("--tls-key", o.tls_key, "Its private key (PEM)")->type_name("FILE");
  app.add_option(
         "--client-ca", o.client_ca,
         "Clients need a certificate signed by this CA (PEM). Those that a revocation list in "
         "the same file names are refused")
      ->type_name("FILE");
  app.add_option("--device", o.device,
                 "Where to compute: auto (a GPU if there is one), cpu, cuda or cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  app.add_flag("--deterministic", o.deterministic,
               "On a GPU: sums in one order whatever shares a pass, so that drafted output equals "
               "plain output bit for bit; wide passes are slower. The CPU always does this");
  app.add_flag("--no-cuda-graphs", o.no_cuda_graphs,
               "On a GPU: launch every kernel by itself instead of replaying recorded passes. "
               "Slower for small models; for tracking down a fault");
  app.add_option("--threads", o.threads, "Threads per pass; 0: one per fast core")
      ->type_name("N")
      ->check(in_range(0u, 1024u))
      ->capture_default_str();
  app.add_option("--ctx", o.models.context_count,
                 "Tokens a session can hold; 0: the model's own limit")
      ->type_name("N")
      ->check(in_range(0u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--max-sessions", o.sessions_max, "Sessions held at once, idle ones included")
      ->type_name("N")
      ->check(in_range(1u, 65536u))
      ->capture_default_str();
  app.add_option(
         "--kv-memory", o.kv_memory,
         "Memory of all sessions' keys and values, e.g. 2GB (units of 1024), taken at the start. "
         "When it is full, prompts wait and idle sessions are dropped, whose clients then send "
         "them again. Memory not in use keeps beginnings of prompts that the same identity may "
         "send again. 0: enough for --max-sessions sessions of --ctx tokens each, at most half "
         "of the device's memory")
      ->type_name("BYTES")
      ->transform(as_byte_size());
  app.add_option("--kv-type", o.kv_type,
                 "Type of keys and values: f32, f16 or bf16. 16 bits take half the memory, so "
                 "that twice the tokens fit into --kv-memory, and less time in long contexts. "
                 "Answers may differ a little from those with f32, but drafted output equals plain "
                 "output with each; f16 is the closer one (11 bits of precision against 8)")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_flag("--no-prefix-cache", o.no_prefix_cache,
               "Keep no beginnings of prompts: each prompt is computed whole, whatever was sent "
               "before it. For measurements whose answers must not depend on earlier ones");
  app.add_option(
         "--max-connections", o.connections_max,
         "Connections at once; further ones push out whoever has not signed in, or are closed")
      ->type_name("N")
      ->check(in_range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--max-queue", o.queue_max,
                 "Requests that may wait or run, not counting those whose client pauses; further "
                 "ones are refused")
      ->type_name("N")
      ->check(in_range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--max-wait", o.wait_max_s,
                 "How long a request may wait for its first pass before it is refused; 0: for ever")
      ->type_name("SECONDS")
      ->check(in_range(0u, 86400u))
      ->capture_default_str();
  app.add_option("--economy", o.economy,
                 "Whether an answer waits for hints that are on their way instead of having passes "
                 "of its own made: fewer passes per token, and slower answers on long links. auto: "
                 "as each client asks; on: for all that send hints; off: for none")
      ->type_name("MODE")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("--compress", o.compress,
                 "How a prompt's activations are compressed: gzip, or none, which saves the server "
                 "time where links are fast")
      ->type_name("HOW")
      ->check(CLI::IsMember({"gzip", "none"}))
      ->capture_default_str();
  app.add_option("--metrics", o.metrics,
                 "Serve /metrics (Prometheus), /health and /ready there, by plain HTTP and "
                 "without sign-in; off unless given")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen));
  app.add_option("--drain-timeout", o.drain_timeout_s,
                 "How long answers may go on after SIGTERM before their connections are closed")
      ->type_name("SECONDS")
      ->check(in_range(0u, 86400u))
      ->capture_default_str();
  app.add_option("--measure", o.measure_s,
                 "How long passes may be measured before the first client is served, so that row "
                 "budgets are right from the start; a pass that has begun is finished. 0: "
                 "they are learned while serving")
      ->type_name("SECONDS")
      ->check(in_range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option(
         "--speculate", o.speculate,
         "Draft on the server where clients' drafts are missing, in streams and between hints: the "
         "name of a --bundle (of its file, without folder and extension), auto, a drafter "
         "without weights (edgedraft run --help, --drafter), or a method that asks the target "
         "itself (" +
             probing_method_names() +
             "), also with a drafter without weights for the "
             "room that its guesses leave: METHOD+KIND. The answers stay the same; trees are as "
             "large "
             "as pays off, and the target is asked if that does. Drafters' caches take a part of "
             "--kv-memory; a session for which none is left is streamed to plainly")
      ->type_name("NAME|auto");
  app.add_option("--index", o.models.indexes,
                 "Public texts for drafters of --speculate that copy from such, as `edgedraft "
                 "index --public` makes them; repeatable")
      ->type_name("FILE");
  app.add_option("--log-level", o.log_level, "What to log: trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->check(is_log_level())
      ->capture_default_str();
  app.add_option("--log-format", o.log_format,
                 "Format of the log: text, or json with one object per line")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.footer(
      "Prints one line, `ready HOST:PORT pin sha256:HEX`, when it accepts clients; give the pin to "
      "them.\n"
      "Example:\n"
      "  edgedraft-server --model target.gguf --bundle drafter.gguf\n"
      "  edgedraft-server --model target.gguf --bundle drafter.gguf --speculate auto\n"
      "SIGTERM and Ctrl-C let answers end (--drain-timeout) and say goodbye to the clients, who go "
      "on offline or elsewhere; a second one ends at once. SIGHUP reloads certificate, key, "
      "client CA and token.");
}

}  // namespace edgedraft::server
