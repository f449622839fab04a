#include "client/commands/client_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shared/base/text_file.h"
#include "shared/drafting/index/corpus_index.h"
#include "shared/drafting/kinds.h"
#include "shared/net/certificate.h"
#include "shared/program/endpoint.h"
#include "shared/program/token_file.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"

namespace edgedraft::client {
namespace {

constexpr std::uint32_t kMillisecondsMax = 24 * 3600 * 1000;

Result<void> check_trust(ClientSettings& config) {
  const TlsClientOptions& tls = config.tls;
  if (!tls.pin.empty() && !tls.ca_file.empty()) {
    return usage_error("--pin and --ca exclude each other: give the one you trust");
  }
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    return usage_error("--tls-cert and --tls-key go together: a certificate and its private key");
  }
  if (config.token_file.empty()) return {};
  auto token = read_token_file(config.token_file, kBearerTokenBytesMax);
  if (!token) return Error{token.error().code, "--token-file " + token.error().message};
  config.token = *std::move(token);
  return {};
}

std::optional<std::vector<std::uint32_t>> parse_numbers(const std::string& text) {
  std::vector<std::uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::uint32_t number = 0;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc()) return std::nullopt;
    numbers.push_back(number);
    if (parsed.ptr == end) return numbers;
    if (*parsed.ptr != ',') return std::nullopt;
    at = parsed.ptr + 1;
  }
}

Result<TreeShape> parse_tree(const std::string& text) {
  const auto numbers = parse_numbers(text);
  TreeShape shape{.nodes = 0};
  if (numbers && numbers->size() == 1) shape = chain_shape((*numbers)[0]);
  if (numbers && numbers->size() == 3) {
    shape = {.breadth = (*numbers)[0], .depth = (*numbers)[1], .nodes = (*numbers)[2]};
  }
  if (valid(shape)) return shape;
  return usage_error("'" + text + "': give BREADTH,DEPTH,NODES, e.g. 8,6,62: breadth 1 to " +
                     std::to_string(kTreeBreadthMax) + ", depth 1 to " +
                     std::to_string(kTreeDepthMax) + ", nodes 1 to " +
                     std::to_string(kTreeNodesMax) + ", and (depth - 1) * breadth below " +
                     std::to_string(kMaskRowsMax) + "; or the length of a chain, 1 to " +
                     std::to_string(kTreeDepthMax));
}

Result<void> check_indexes(const DrafterWishes& wishes) {
  if (wishes.indexes.empty()) return {};
  if (!(wishes.merges_if_faster && wishes.kind.empty()) && !drafts_from_indexes(wishes.kind) &&
      std::ranges::none_of(wishes.merge, drafts_from_indexes)) {
    return usage_error("--index: no drafter looks anything up in it; leave it out, or ask for one");
  }
  // Drafts are sent to the server, which must not learn the content of private indexes.
  const auto indexes = CorpusIndex::open_public(wishes.indexes);
  if (!indexes) return Error{indexes.error().code, "--index " + indexes.error().message};
  return {};
}

Result<void> check_drafter(const OptionValues& o) {
  const DrafterWishes& wishes = o.config.drafter;
  if (wishes.bundles.empty()) {
    return usage_error(
        "which drafter? Give --bundle FILE.gguf, the same file as the server's (see --help)");
  }
  if (o.plain && !(wishes.kind.empty() && wishes.merge.empty() && wishes.indexes.empty())) {
    return usage_error("--plain drafts nothing: leave out --drafter, --drafter-merge and --index");
  }
  if (!wishes.kind.empty() && !is_weightless_kind(wishes.kind)) {
    return usage_error("--drafter " + wishes.kind + ": give one that needs no weights, of " +
                       weightless_kind_names());
  }
  for (const std::string& kind : wishes.merge) {
    if (is_weightless_kind(kind)) continue;
    return usage_error("--drafter-merge " + kind + ": give some that need no weights, of " +
                       weightless_kind_names() + ", or auto or none alone");
  }
  if (wishes.bundles.size() > 1 && (o.plain || !wishes.kind.empty())) {
    return usage_error(std::string(o.plain ? "--plain" : "--drafter") +
                       " takes nothing but the tokenizer of a --bundle: give one");
  }
  return check_indexes(wishes);
}

constexpr std::uint64_t kNamesBytesMax = 1u << 20;

Result<void> check_privacy(const OptionValues& o, PrivacyGuard::Options& privacy) {
  for (const std::string& word : o.private_detect) {
    if (word == "none" && o.private_detect.size() == 1) break;
    std::string known;
    bool found = false;
    for (const PrivateType type : kDetectedTypes) {
      if (word == "all" || word == to_string(type)) privacy.detects.push_back(type);
      found = found || word == "all" || word == to_string(type);
      known += std::string(to_string(type)) + ", ";
    }
    if (!found)
      return usage_error("--private-detect " + word + ": give some of " + known + "or all or none");
  }
  if (privacy.refuses_detected && privacy.detects.empty()) {
    return usage_error(
        "--private-found refuse: nothing is looked for, so nothing would be refused; say what "
        "with --private-detect");
  }
  if (o.private_names.empty()) return {};
  auto names = read_text(o.private_names, kNamesBytesMax);
  if (!names) return Error{names.error().code, "--private-names " + names.error().message};
  std::istringstream lines(*names);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) privacy.names.push_back(std::move(line));
  }
  if (privacy.names.size() > PrivateVault::kNamesMax) {
    return usage_error("--private-names " + o.private_names.string() + " has " +
                       std::to_string(privacy.names.size()) + " names, and " +
                       std::to_string(PrivateVault::kNamesMax) + " fit: shorten it");
  }
  return {};
}

// Adds an option whose values have names.
template <class T>
CLI::Option* add_named(CLI::App& app, const char* option, T& value, const char* type,
                       const std::vector<std::pair<std::string, std::type_identity_t<T>>>& names,
                       const char* what) {
  const auto set = [&value, names](const std::string& name) {
    value = std::ranges::find(names, name, [](const auto& one) { return one.first; })->second;
  };
  return app.add_option_function<std::string>(option, set, what)
      ->type_name(type)
      ->check(CLI::IsMember(names))
      ->default_str(
          std::ranges::find(names, value, [](const auto& one) { return one.second; })->first);
}

CLI::Option* add_milliseconds(CLI::App& app, const char* option, Duration& value, std::uint32_t min,
                              std::uint32_t max, const char* what) {
  using std::chrono::milliseconds;
  const auto set = [&value](std::uint32_t count) { value = milliseconds(count); };
  return app.add_option_function<std::uint32_t>(option, set, what)
      ->type_name("MS")
      ->check(in_range(min, max))
      ->default_str(std::to_string(value / milliseconds(1)));
}

}  // namespace

Result<void> check_standard_input(const OptionValues& o, std::string reader) {
  const std::initializer_list<std::pair<std::string, const std::filesystem::path*>> files{
      {"--token-file -", &o.config.token_file},
      {"--chat-template -", &o.config.chat_template},
      {"--private-names -", &o.private_names}};
  for (const auto& [option, file] : files) {
    if (*file != "-") continue;
    if (!reader.empty()) {
      return usage_error(option + ": standard input is read " + reader + "; name a file");
    }
    reader = "for " + option;
  }
  return {};
}

Result<ClientSettings> check_answer_options(const OptionValues& o) {
  ClientSettings config = o.config;
  if (auto right = check_drafter(o); !right) return right.error();
  const auto server = parse_endpoint(config.server, EndpointUse::connect);
  if (!server) return usage_error("--server: " + server.error().message);
  config.host = server->host;
  config.port = std::to_string(server->port);
  if (auto right = check_trust(config); !right) return right.error();
  GenerationOptions& g = config.generation;
  if (!o.plain) g.tree = o.tree;
  g.sampling.seed = o.seed.value_or(0);
  if (o.plain && config.offline_bundle.empty() &&
      (config.memory_limit != MemoryMeter::kUnlimited || config.drafted_positions > 0)) {
    return usage_error("--memory and --ctx are of a drafter, and with --plain there is none");
  }
  if (auto right = check_privacy(o, config.privacy); !right) return right.error();
  return config;
}

void declare_answer_options(CLI::App& app, OptionValues& o) {
  ClientSettings& config = o.config;
  DrafterWishes& wishes = config.drafter;
  SamplingParams& sampling = config.generation.sampling;
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return app.add_option(name, value, what)->type_name(type);
  };
  add("--bundle", wishes.bundles, "FILE.gguf",
      "The drafter; the same file as the server's. Repeatable: once each has been tried, the one "
      "with the fastest answers is used. With --plain any model with the target's tokenizer")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--offline-bundle", config.offline_bundle, "FILE.gguf",
      "The model that writes while the server is away: a drafter that needs only tokens, or any "
      "model with the same tokenizer; it may be larger than the one that drafts [the drafter, "
      "unless it needs activations and has had none]");
  add("--drafter", wishes.kind, "KIND",
      ("Another drafter than the bundle's own, one that needs no weights: " +
       weightless_kind_names())
          .c_str());
  using Words = std::vector<std::string>;
  const auto merge = [&wishes](const Words& words) {
    wishes.merges_if_faster = words == Words{"auto"};
    wishes.merge = wishes.merges_if_faster || words == Words{"none"} ? Words() : words;
  };
  app.add_option_function<Words>(
         "--drafter-merge", merge,
         "Add the proposals of such drafters to the drafter's trees; auto: if that is measured to "
         "be faster; none: never")
      ->type_name("KIND,...")
      ->delimiter(',')
      ->default_str("auto");
  add("--index", wishes.indexes, "FILE",
      "Public texts to copy from, as `edgedraft index --public` made it of them. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--plain", o.plain, "No drafting on the device: the server streams the answer");
  add("--server", config.server, "HOST:PORT", "Where the target is")
      ->check(is_endpoint(EndpointUse::connect))
      ->capture_default_str();
  add("--pin", config.tls.pin, "sha256:HEX",
      "The server's public key, as it prints it when it starts")
      ->check(accepted_by(parse_pin));
  add("--ca", config.tls.ca_file, "FILE",
      "Trust a server whose certificate this CA signed (PEM); without --pin and --ca the system's");
  add("--token-file", config.token_file, "FILE",
      "File with the token that signs in: its only line, not readable for everybody");
  add("--tls-cert", config.tls.certificate_file, "FILE",
      "Our own certificate (PEM), if the server asks for one");
  add("--tls-key", config.tls.key_file, "FILE", "Its private key (PEM)");
  app.add_option_function<std::string>(
         "--tree", [&o](const std::string& text) { o.tree = parse_tree(text).value(); },
         "Shape of the drafted trees; one number: that many tokens in a row [8,6,62]")
      ->type_name("BREADTH,DEPTH,NODES")
      ->check(accepted_by(parse_tree));
  add_named(app, "--hold", config.generation.hold, "MODE",
            {{"auto", std::nullopt},
             {"none", Hold::none},
             {"economy", Hold::economy},
             {"lockstep", Hold::lockstep}},
            "What the server's passes wait for. none: nothing, it goes on by itself and takes the "
            "hints that have come; economy: hints on their way, which costs fewer passes and is "
            "slower on long links; lockstep: the next draft, a round trip per pass; auto: none, "
            "economy or no drafting, whichever is measured to be faster");
  add("--max-tokens", config.generation.tokens_max, "N", "Longest answer, in tokens")
      ->check(in_range(1u, kContextCountMax))
      ->capture_default_str();
  add("--temperature", sampling.temperature, "T",
      "Temperature of the sampler; 0: always the likeliest token")
      ->check(in_range(0.0, 100.0))
      ->capture_default_str();
  add("--top-k", sampling.top_k, "K", "Draw from the K likeliest tokens; 0: from all")
      ->check(in_range(0u, kTokenIdEnd))
      ->capture_default_str();
  add("--top-p", sampling.top_p, "P", "Draw from the likeliest tokens that make up P; 1: from all")
      // Smaller values would become 0 in the float32 that is sent.
      ->check(in_range(1e-30, 1.0))
      ->capture_default_str();
  add("--min-p", sampling.min_p, "P", "Draw from tokens of at least P times the best's probability")
      ->check(in_range(0.0, 1.0))
      ->capture_default_str();
  add("--seed", o.seed, "S",
      "The same seed gives the same answer, drafted or plain [0; serve: another for each request]")
      ->check(is_seed());
  add_milliseconds(app, "--deadline-ms", config.generation.deadline, 1, kMillisecondsMax,
                   "Silence of the server after which the drafter writes on alone");
  app.add_flag(
      "--pad", config.pads,
      "Sizes and times tell an observer of the network nothing but when an answer begins "
      "and ends: both sides send blocks of constant size at a constant pace, one in 20 ms. "
      "Costs bytes, and some milliseconds a token");
  app.add_option_function<std::string>(
         "--device",
         [&config](const std::string& text) { config.device = parse_device_request(text).value(); },
         "Where to draft: cpu, vulkan:N, vulkan (its best device) or auto, the fastest for this "
         "drafter; `edgedraft devices` lists them")
      ->type_name("DEVICE")
      ->check(accepted_by(parse_device_request))
      ->default_str("auto");
  add("--threads", config.thread_count, "N", "Threads of the drafter; 0: one per fast core")
      ->check(in_range(0u, 1024u))
      ->capture_default_str();
  add_named(app, "--kv-type", config.kv_type, "TYPE", {{"f32", DType::f32}, {"f16", DType::f16}},
            "The drafter's keys and values on a GPU with 16-bit storage: f32, or f16, which takes "
            "half the memory. Elsewhere they are f32");
  add("--memory", config.memory_limit, "BYTES",
      "Drafters hold no more memory than that, e.g. 512MB (units of 1024): for weights that are "
      "not read where the file is mapped, caches and working memory. Where it is too little for "
      "the whole context, they draft in fewer tokens of it [no limit]")
      ->transform(as_byte_size());
  add("--ctx", config.drafted_positions, "N",
      "Tokens of a conversation that are drafted in; after them it goes on without drafts. Caches "
      "take memory for each [the bundle's context]")
      ->check(in_range(1u, kContextCountMax));
  add("--chat-template", config.chat_template, "FILE", "A Jinja template instead of the bundle's");
  add_named(
      app, "--private", config.privacy.mode, "MODE",
      {{"mask", PrivateMode::mask},
       {"local", PrivateMode::local},
       {"prefix", PrivateMode::prefix},
       {"off", PrivateMode::off}},
      "What becomes of private text, which <private>...</private> marks and --private-detect "
      "finds. mask: placeholders are sent in its place, and their values put back into the answer; "
      "local: nothing of such a text is sent, the device answers; prefix: the same, but what "
      "stands before the first private text is sent, for the target's activations of it; off: all "
      "is sent as it is");
  add("--private-detect", o.private_detect, "TYPE,...",
      "What is private without a mark: mail, phone, card, iban, address, key; all; none")
      ->delimiter(',')
      ->capture_default_str();
  add("--private-names", o.private_names, "FILE",
      "Names that are private, one a line, 10,000 at most");
  add_named(
      app, "--private-found", config.privacy.refuses_detected, "HOW",
      {{"mask", false}, {"refuse", true}},
      "Private text that is detected but was neither marked nor known: mask it (mask), or refuse "
      "the request (refuse)");
  add_named(
      app, "--private-types", config.privacy.shows_types, "SHOWN", {{"on", true}, {"off", false}},
      "Placeholders say what kind of text they stand for, [MAIL_001], or not, [TEXT_001]: on, off");
  add("--log-level", config.log_level, "LEVEL",
      "What to log: trace, debug, info, warn, error or off")
      ->check(is_log_level())
      ->capture_default_str();
}

void declare_shown_answer_options(CLI::App& app, OptionValues& o) {
  add_named(app, "--resync", o.config.generation.resync, "POLICY",
            {{"check", wire::ResyncPolicy::check}, {"keep", wire::ResyncPolicy::keep}},
            "What becomes of text written offline: check (the server corrects it) or keep");
  add_milliseconds(app, "--resync-wait-ms", o.config.generation.resync_wait, 0, kMillisecondsMax,
                   "How long an answer waits for the server: to check what ended offline, or to go "
                   "on if nobody here can write");
  app.add_flag("--json", o.config.json, "One JSON object an answer on standard output");
}

}  // namespace edgedraft::client
