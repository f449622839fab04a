#include "client/commands/commands.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "client/commands/client_parts.h"
#include "client/engine/memory_fit.h"
#include "client/serve/api_guard.h"
#include "client/serve/local_server.h"
#include "client/serve/page/conversation_store.h"
#include "shared/base/clock.h"
#include "shared/base/log.h"
#include "shared/program/endpoint.h"
#include "shared/program/interrupt.h"
#include "shared/program/options.h"
#include "shared/program/program.h"
#include "shared/program/token_file.h"
#include "shared/program/validators.h"

namespace edgedraft::client {
namespace {

constexpr std::size_t kKeyBytesMax = 4096;
// Prompts that wait while every conversation is busy; further ones are refused.
constexpr std::uint32_t kLineMax = 256;

Result<std::string> read_key(const ServeOptions& o, const std::string& host) {
  if (!o.api_key_file.empty()) {
    auto key = read_token_file(o.api_key_file, kKeyBytesMax);
    if (!key) return Error{key.error().code, "--api-key-file " + key.error().message};
    return key;
  }
  if (is_loopback(host)) return std::string();
  return Error{Errc::usage,
               "--listen " + host +
                   ": addresses other than loopback require a key. Give --api-key-file (for "
                   "example: (umask 077; openssl rand -hex 32 > key))"};
}

// Null if the page is off.
Result<std::unique_ptr<ConversationStore>> open_store(const std::optional<std::string>& page) {
  if (page == "off") return std::unique_ptr<ConversationStore>();
  if (page == "memory") return ConversationStore::open({});
  if (page) return ConversationStore::open(*page);
  auto store = ConversationStore::open(place_in(data_directory(), "conversations.db"));
  if (store) return store;
  return Error{store.error().code, store.error().message +
                                       ": keep conversations elsewhere with --page FILE, or only "
                                       "in memory with --page memory"};
}

}  // namespace

void declare_serve(CLI::App& app, ServeOptions& o) {
  app.add_option("--listen", o.listen, "Address of the API; port 0 selects a free port")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen))
      ->capture_default_str();
  app.add_option("--api-key-file", o.api_key_file,
                 "File with the API key that clients must send (one line, not world-readable). "
                 "Without it no key is required, which is allowed on loopback only")
      ->type_name("FILE");
  const auto repeatable = [&](const char* name, std::vector<std::string>& value, const char* type,
                              const CLI::Validator& validator, const char* what) {
    app.add_option(name, value, what)
        ->type_name(type)
        ->check(validator)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  repeatable("--allow-origin", o.allow_origins, "ORIGIN", accepted_by(check_origin),
             "Origin whose pages may use the API, e.g. https://chat.example, or the endpoint's own "
             "behind a TLS proxy; '*': all pages. Repeatable");
  repeatable("--allow-host", o.allow_hosts, "NAME", accepted_by(check_host_name),
             "Host name that clients may use for this machine, besides localhost and IP addresses. "
             "Repeatable");
  app.add_option("--alias", o.alias, "Name of the model in the API [the bundle's file name]")
      ->type_name("NAME");
  app.add_option("--offline", o.offline,
                 "Default for answers while the server is unreachable. wait: wait for it; keep: "
                 "hold the drafter's text back for --hold-ms, then send it as final; revise: send "
                 "it at once, and correct it when the server returns")
      ->type_name("POLICY")
      ->check(CLI::IsMember({"wait", "keep", "revise"}))
      ->capture_default_str();
  app.add_option("--hold-ms", o.hold_ms, "How long --offline keep holds the drafter's text back")
      ->type_name("MS")
      ->check(in_range(0u, 600'000u))
      ->capture_default_str();
  app.add_option("--route", o.route,
                 "Default route of requests. server: the server answers; device: the drafter "
                 "answers alone, and nothing is sent; auto: the drafter answers until it is "
                 "unsure, then the server continues")
      ->type_name("ROUTE")
      ->check(CLI::IsMember({"server", "device", "auto"}))
      ->capture_default_str();
  app.add_option("--handover-below", o.handover_below,
                 "With --route auto: the drafter is unsure if the geometric mean probability of "
                 "its last 8 tokens is below P")
      ->type_name("P")
      ->check(in_range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--conversations", o.conversations,
                 "Maximum number of conversations held in memory, and of answers written at once")
      ->type_name("N")
      ->check(in_range(1u, 1024u))
      ->capture_default_str();
  app.add_option("--page", o.page,
                 "File in which the page at the endpoint's address stores conversations; memory: "
                 "store none; off: no page [conversations.db in ~/.local/share/edgedraft]")
      ->type_name("FILE");
  declare_answer_options(app, o.answer);
  app.footer(
      "Any client of OpenAI's API can use the endpoint (docs/assistant.md):\n"
      "  edgedraft serve --server HOST:7420 --pin sha256:... --bundle drafter.gguf\n"
      "  curl http://127.0.0.1:7430/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", "
      "\"content\": \"Hi\"}]}'\n"
      "The sampling options are defaults for requests that leave them out; without --seed, each\n"
      "such request gets a random seed. The server need not be running yet.\n"
      "Prints `ready URL model NAME` once it accepts requests. Ctrl-C or SIGTERM ends it.");
}

Result<int> run_serve(const ServeOptions& o) {
  const auto endpoint = parse_endpoint(o.listen, EndpointUse::listen);
  if (!endpoint) return Error{Errc::usage, "--listen: " + endpoint.error().message};
  const char* const reader = o.api_key_file == "-" ? "for the API key (--api-key-file -)" : "";
  if (auto right = check_standard_input(o.answer, reader); !right) return right.error();
  auto key = read_key(o, endpoint->host);
  if (!key) return key.error();
  auto config = check_answer_options(o.answer);
  if (!config) return config.error();
  // An answer that ended offline waits as long for its check.
  config->generation.resync_wait = std::chrono::milliseconds(o.hold_ms);
  auto opened = ClientParts::open(*config);
  if (!opened) return opened.error();
  ClientParts& parts = **opened;
  // A model without a template can still complete text.
  const auto chat = parts.bundle().chat_template(config->chat_template);
  if (!chat && !config->chat_template.empty()) return chat.error();
  if (o.answer.plain && config->offline_bundle.empty() && o.route != "server") {
    return Error{
        Errc::usage,
        "--route " + o.route +
            ": with --plain no drafter can answer; remove --plain, or give --offline-bundle FILE"};
  }
  const auto conversations = parts.start_engine(o.conversations);
  if (!conversations) return conversations.error();

  auto store = open_store(o.page);
  if (!store) return store.error();
  catch_interrupts();
  ignore_closed_pipes();
  const std::string model = o.alias.empty() ? parts.bundle().path().stem().string() : o.alias;
  const auto server = LocalServer::start(
      {.address = endpoint->host,
       .port = endpoint->port,
       .on_failure = [&](const std::string& what) { parts.log()->warn("{}", what); }},
      {.guard = {.key = *std::move(key),
                 .allow_origins = o.allow_origins,
                 .allow_hosts = o.allow_hosts},
       .bundle = parts.bundle(),
       .chat = chat ? &*chat : nullptr,
       .no_chat = chat ? "" : chat.error().message,
       .model = model,
       .defaults = {.tokens_max = config->generation.tokens_max,
                    .sampling = config->generation.sampling,
                    .offline = offline_policy_of(o.offline),
                    .route = route_of(o.route)},
       .keep_after = std::chrono::milliseconds(o.hold_ms),
       .device_answers = parts.answers_here(),
       .handover_below = o.handover_below,
       .privacy = config->privacy,
       .uplink = &parts.uplink(),
       .plug = &parts.plug(),
       .grid = &parts.grid(),
       .contact = &parts.contact(),
       .store = store->get(),
       .memory = &parts.memory(),
       .mapped_bytes = parts.mapped_bytes(),
       .seeds_are_random = !o.answer.seed,
       .conversations = {
           .engine = parts.engine(),
           .parts =
               [&](GenerationObserver& observer) {
                 auto conversation = parts.conversation(
                     observer, [&](const Error& error) { parts.log()->warn("{}", error.message); });
                 conversation.on_decision = [&](const std::string& what) {
                   parts.log()->debug("{}", what);
                 };
                 return conversation;
               },
           .on_outcome =
               [&](const GenerationOutcome& outcome) {
                 parts.keep(outcome);
                 parts.log()->info("{} tokens in {:.2f} s, {} of them offline, {} passes",
                                   outcome.stats.tokens, seconds(outcome.stats.elapsed),
                                   outcome.stats.offline_tokens, outcome.stats.target_calls);
               },
           .count_max = *conversations,
           .line_max = kLineMax}});
  if (!server) return Error{server.error().code, "--listen " + server.error().message};
  parts.log()->info(
      "drafter memory: {} held, {} of mapped files; ready {:.2f} s after program start",
      mebibytes(parts.memory().held()), mebibytes(parts.mapped_bytes()),
      seconds(Clock::now() - program_start()));
  std::cout << "ready http://" << to_string(Endpoint{endpoint->host, (*server)->port()})
            << "/v1 model " << model << std::endl;
  while (!interrupted()) std::this_thread::sleep_for(kInterruptDelay);
  return 0;
}

}  // namespace edgedraft::client
