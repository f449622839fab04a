#include "client/commands/answer_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <sstream>
#include <string>
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

namespace edgedraft {
namespace {

constexpr std::uint32_t kMillisecondsMax = 24 * 3600 * 1000;

Result<void> check_trust(const AnswerOptions& o, AnswerConfig& config) {
  if (!o.pin.empty() && !o.ca.empty()) {
    return usage_error("--pin and --ca exclude each other: give the one you trust");
  }
  if (o.tls_cert.empty() != o.tls_key.empty()) {
    return usage_error("--tls-cert and --tls-key go together: a certificate and its private key");
  }
  config.tls = {
      .pin = o.pin, .ca_file = o.ca, .certificate_file = o.tls_cert, .key_file = o.tls_key};
  if (o.token_file.empty()) return {};
  auto token = read_token_file(o.token_file, kBearerTokenBytesMax);
  if (!token) return Error{token.error().code, "--token-file " + token.error().message};
  config.token = *std::move(token);
  config.token_file = o.token_file;
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
  if (numbers && numbers->size() == 3) {
    const TreeShape shape{.breadth = (*numbers)[0], .depth = (*numbers)[1], .nodes = (*numbers)[2]};
    if (valid(shape)) return shape;
  }
  return usage_error("'" + text + "': give BREADTH,DEPTH,NODES, e.g. 8,6,62: breadth 1 to " +
                     std::to_string(kTreeBreadthMax) + ", depth 1 to " +
                     std::to_string(kTreeDepthMax) + ", nodes 1 to " +
                     std::to_string(kTreeNodesMax) + ", and (depth - 1) * breadth below " +
                     std::to_string(kMaskRowsMax));
}

Result<std::optional<TreeShape>> shape_of(const AnswerOptions& o) {
  if (o.tree && o.chain) {
    return usage_error(
        "--tree and --chain exclude each other; one of them may come from the environment "
        "(EDGEDRAFT_TREE, EDGEDRAFT_CHAIN) or the configuration file");
  }
  if (o.plain) return std::optional<TreeShape>();
  if (o.chain) return std::optional(chain_shape(*o.chain));
  const auto shape = parse_tree(o.tree.value_or("8,6,62"));
  if (!shape) return usage_error("--tree: " + shape.error().message);
  return std::optional(*shape);
}

Result<void> check_indexes(const DrafterWishes& wishes) {
  if (wishes.indexes.empty()) return {};
  if (!(wishes.merges_if_faster && wishes.kind.empty()) && !drafts_from_indexes(wishes.kind) &&
      std::ranges::none_of(wishes.merge, drafts_from_indexes)) {
    return usage_error("--index: no drafter looks anything up in it; leave it out, or ask for one");
  }
  // What is drafted goes to the server, which must not learn what is in them.
  const auto indexes = CorpusIndex::open_public(wishes.indexes);
  if (!indexes) return Error{indexes.error().code, "--index " + indexes.error().message};
  return {};
}

Result<DrafterWishes> check_drafter(const AnswerOptions& o) {
  if (o.bundles.empty()) {
    return usage_error(
        "which drafter? Give --bundle FILE.gguf, the same file as the server's (see --help)");
  }
  DrafterWishes wishes{
      .bundles = o.bundles, .kind = o.drafter, .merge = o.drafter_merge, .indexes = o.indexes};
  const bool one_word = wishes.merge.size() == 1;
  wishes.merges_if_faster = one_word && wishes.merge.front() == "auto";
  if (wishes.merges_if_faster || (one_word && wishes.merge.front() == "none")) wishes.merge.clear();
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
  if (o.bundles.size() > 1 && (o.plain || !o.drafter.empty())) {
    return usage_error(std::string(o.plain ? "--plain" : "--drafter") +
                       " takes nothing but the tokenizer of a --bundle: give one");
  }
  if (auto right = check_indexes(wishes); !right) return right.error();
  return wishes;
}

Result<void> check_experiment(const AnswerOptions& o, AnswerConfig& config) {
  if (o.plain && o.offline_bundle.empty() && (o.pace_ms > 0 || !o.pace_profile.empty())) {
    return usage_error(
        "--pace-ms and --pace-profile are a drafter's, and with --plain there is none");
  }
  if (!o.pace_profile.empty()) {
    if (o.pace_ms > 0)
      return usage_error("--pace-ms and --pace-profile exclude each other: give one");
    auto profile = PaceProfile::read(o.pace_profile);
    if (!profile) return Error{profile.error().code, "--pace-profile " + profile.error().message};
    config.pace_profile = *std::move(profile);
  } else if (o.pace_beside_target) {
    return usage_error("--pace-beside-target chooses a part of --pace-profile: give that, too");
  }
  if (!o.offline_bundle.empty() && (o.pace_ms > 0 || !o.pace_profile.empty())) {
    return usage_error(
        "--offline-bundle writes at its own pace: leave out --pace-ms and --pace-profile");
  }
  config.pace_place =
      o.pace_beside_target ? PaceProfile::Place::beside_target : PaceProfile::Place::device;
  config.cycles_file = o.cycles;
  if (o.offline_after) {
    if (o.plain && o.offline_bundle.empty()) {
      return usage_error("--offline-after: with --plain there is no drafter to write on");
    }
    config.offline_after = o.offline_after;
  }
  if (o.oracle.empty()) {
    if (!o.oracle_acceptance && !o.oracle_seed) return {};
    return usage_error("--oracle-acceptance and --oracle-seed need --oracle");
  }
  if (o.plain) return usage_error("--oracle drafts, --plain does not: give one of them");
  auto tokens = read_answer_tokens(o.oracle);
  if (!tokens) return Error{tokens.error().code, "--oracle " + tokens.error().message};
  config.oracle = {.answer = *std::move(tokens),
                   .acceptance = o.oracle_acceptance.value_or(OracleOptions{}.acceptance),
                   .seed = o.oracle_seed.value_or(OracleOptions{}.seed)};
  return {};
}

constexpr std::uint64_t kNamesBytesMax = 1u << 20;
constexpr PrivateType kDetected[] = {PrivateType::mail, PrivateType::phone,   PrivateType::card,
                                     PrivateType::iban, PrivateType::address, PrivateType::key};

Result<PrivacyGuard::Options> check_privacy(const AnswerOptions& o) {
  PrivacyGuard::Options privacy{.refuses_detected = o.private_found == "refuse",
                                .shows_types = o.private_types == "on"};
  privacy.mode = private_mode_of(o.private_mode);
  for (const std::string& word : o.private_detect) {
    if (word == "none" && o.private_detect.size() == 1) break;
    std::string known;
    bool found = false;
    for (const PrivateType type : kDetected) {
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
  if (o.private_names.empty()) return privacy;
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
  return privacy;
}

}  // namespace

Result<void> check_standard_input(const AnswerOptions& o, std::string reader) {
  const std::initializer_list<std::pair<std::string, const std::filesystem::path*>> files{
      {"--token-file -", &o.token_file},
      {"--chat-template -", &o.chat_template},
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

Result<AnswerConfig> check_answer_options(const AnswerOptions& o) {
  AnswerConfig config{};
  auto drafter = check_drafter(o);
  if (!drafter) return drafter.error();
  config.drafter = *std::move(drafter);
  config.offline_bundle = o.offline_bundle;
  const auto device = parse_device_request(o.device);
  if (!device) return usage_error("--device: " + device.error().message);
  const auto shape = shape_of(o);
  if (!shape) return shape.error();
  const auto server = parse_endpoint(o.server, EndpointUse::connect);
  if (!server) return usage_error("--server: " + server.error().message);
  config.pads = o.pad;
  config.server = o.server;
  config.host = server->host;
  config.port = std::to_string(server->port);
  if (auto right = check_trust(o, config); !right) return right.error();
  GenerationOptions& g = config.generation;
  g.tree = *shape;
  g.control = o.control == "auto" ? ControlMode::automatic : ControlMode::off;
  g.overlap = o.overlap == "on"                            ? Overlap::on
              : o.overlap == "economy"                     ? Overlap::economy
              : o.overlap == "auto" && o.control == "auto" ? Overlap::automatic
                                                           : Overlap::off;
  g.tokens_max = o.max_tokens;
  g.sampling = {.temperature = static_cast<float>(o.temperature),
                .top_k = o.top_k,
                .top_p = static_cast<float>(o.top_p),
                .min_p = static_cast<float>(o.min_p),
                .seed = o.seed.value_or(0)};
  g.deadline = std::chrono::milliseconds(o.deadline_ms);
  g.resync = o.resync == "check" ? wire::ResyncPolicy::check : wire::ResyncPolicy::keep;
  g.resync_wait = std::chrono::milliseconds(o.resync_wait_ms);
  config.pace.least = std::chrono::milliseconds(o.pace_ms);
  if (auto right = check_experiment(o, config); !right) return right.error();
  config.device = *device;
  config.thread_count = o.threads;
  config.kv_type = dtype_from_name(o.kv_type).value();
  if (o.plain && o.offline_bundle.empty() && (o.memory != MemoryMeter::kUnlimited || o.ctx > 0)) {
    return usage_error("--memory and --ctx are of a drafter, and with --plain there is none");
  }
  config.memory_limit = o.memory;
  config.drafted_positions = o.ctx;
  config.raw = o.raw;
  config.chat_template = o.chat_template;
  auto privacy = check_privacy(o);
  if (!privacy) return privacy.error();
  config.privacy = *std::move(privacy);
  config.json = o.json;
  config.log_level = o.log_level;
  return config;
}

void declare_answer_options(CLI::App& app, AnswerOptions& o) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return app.add_option(name, value, what)->type_name(type);
  };
  add("--bundle", o.bundles, "FILE.gguf",
      "The drafter; the same file as the server's. Repeatable: once each has been tried, the one "
      "with the fastest answers is used. With --plain any model with the target's tokenizer")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--offline-bundle", o.offline_bundle, "FILE.gguf",
      "The model that writes while the server is away: a drafter that needs only tokens, or any "
      "model with the same tokenizer; it may be larger than the one that drafts [the drafter, "
      "unless it needs activations and has had none]");
  add("--drafter", o.drafter, "KIND",
      ("Another drafter than the bundle's own, one that needs no weights: " +
       weightless_kind_names())
          .c_str());
  add("--drafter-merge", o.drafter_merge, "KIND,...",
      "Add the proposals of such drafters to the drafter's trees; auto: if that is measured to be "
      "faster; none: never")
      ->delimiter(',')
      ->default_str("auto");
  add("--index", o.indexes, "FILE",
      "Public texts to copy from, as `edgedraft index --public` made it of them. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--plain", o.plain, "No drafting on the device: the server streams the answer");
  add("--server", o.server, "HOST:PORT", "Where the target is")
      ->check(is_endpoint(EndpointUse::connect))
      ->capture_default_str();
  add("--pin", o.pin, "sha256:HEX", "The server's public key, as it prints it when it starts")
      ->check(accepted_by(parse_pin));
  add("--ca", o.ca, "FILE",
      "Trust a server whose certificate this CA signed (PEM); without --pin and --ca the system's");
  add("--token-file", o.token_file, "FILE",
      "File with the token that signs in: its only line, not readable for everybody");
  add("--tls-cert", o.tls_cert, "FILE", "Our own certificate (PEM), if the server asks for one");
  add("--tls-key", o.tls_key, "FILE", "Its private key (PEM)");
  add("--tree", o.tree, "BREADTH,DEPTH,NODES", "Shape of the drafted trees [8,6,62]")
      ->check(accepted_by(parse_tree));
  add("--chain", o.chain, "K", "Draft K tokens in a row instead of a tree")
      ->check(in_range(1u, kTreeDepthMax));
  add("--control", o.control, "MODE",
      "auto: drafts or has the server stream, whichever is measured to be faster; off: always "
      "drafts, with --plain a token per round trip")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  add("--overlap", o.overlap, "MODE",
      "on: the server goes on by itself, and drafts are hints that it takes whenever they come; "
      "economy: the same with fewer passes of the target, and slower on long links; off: a draft "
      "waits for the verdict on the one before; auto: by what is measured on, economy or a stream, "
      "and off with --control off or a server that cannot do it")
      ->check(CLI::IsMember({"auto", "on", "economy", "off"}))
      ->capture_default_str();
  add("--max-tokens", o.max_tokens, "N", "Longest answer, in tokens")
      ->check(in_range(1u, kContextCountMax))
      ->capture_default_str();
  add("--temperature", o.temperature, "T",
      "Temperature of the sampler; 0: always the likeliest token")
      ->check(in_range(0.0, 100.0))
      ->capture_default_str();
  add("--top-k", o.top_k, "K", "Draw from the K likeliest tokens; 0: from all")
      ->check(in_range(0u, kTokenIdEnd))
      ->capture_default_str();
  add("--top-p", o.top_p, "P", "Draw from the likeliest tokens that make up P; 1: from all")
      // Smaller ones would be 0 as the float32 that the target is told.
      ->check(in_range(1e-30, 1.0))
      ->capture_default_str();
  add("--min-p", o.min_p, "P", "Draw from tokens of at least P times the best's probability")
      ->check(in_range(0.0, 1.0))
      ->capture_default_str();
  add("--seed", o.seed, "S",
      "The same seed gives the same answer, drafted or plain [0; serve: another for each request]")
      ->check(is_seed());
  add("--deadline-ms", o.deadline_ms, "MS",
      "Silence of the server after which the drafter writes on alone")
      ->check(in_range(1u, kMillisecondsMax))
      ->capture_default_str();
  app.add_flag(
      "--pad", o.pad,
      "Sizes and times tell an observer of the network nothing but when an answer begins "
      "and ends: both sides send blocks of constant size at a constant pace, one in 20 ms. "
      "Costs bytes, and some milliseconds a token");
  add("--device", o.device, "DEVICE",
      "Where to draft: cpu, vulkan:N, vulkan (its best device) or auto, the fastest for this "
      "drafter; `edgedraft devices` lists them")
      ->check(accepted_by(parse_device_request))
      ->capture_default_str();
  add("--threads", o.threads, "N", "Threads of the drafter; 0: one per fast core")
      ->check(in_range(0u, 1024u))
      ->capture_default_str();
  add("--kv-type", o.kv_type, "TYPE",
      "The drafter's keys and values on a GPU with 16-bit storage: f32, or f16, which takes half "
      "the memory. Elsewhere they are f32")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  add("--memory", o.memory, "BYTES",
      "Drafters hold no more memory than that, e.g. 512MB (units of 1024): for weights that are "
      "not read where the file is mapped, caches and working memory. Where it is too little for "
      "the whole context, they draft in fewer tokens of it [no limit]")
      ->transform(as_byte_size());
  add("--ctx", o.ctx, "N",
      "Tokens of a conversation that are drafted in; after them it goes on without drafts. Caches "
      "take memory for each [the bundle's context]")
      ->check(in_range(1u, kContextCountMax));
  add("--chat-template", o.chat_template, "FILE", "A Jinja template instead of the bundle's");
  add("--private", o.private_mode, "MODE",
      "What becomes of private text, which <private>...</private> marks and --private-detect "
      "finds. mask: placeholders are sent in its place, and their values put back into the answer; "
      "local: nothing of such a text is sent, the device answers; prefix: the same, but what "
      "stands before the first private text is sent, for the target's activations of it; off: all "
      "is sent as it is")
      ->check(CLI::IsMember({"mask", "local", "prefix", "off"}))
      ->capture_default_str();
  add("--private-detect", o.private_detect, "TYPE,...",
      "What is private without a mark: mail, phone, card, iban, address, key; all; none")
      ->delimiter(',')
      ->capture_default_str();
  add("--private-names", o.private_names, "FILE",
      "Names that are private, one a line, 10,000 at most");
  add("--private-found", o.private_found, "HOW",
      "Private text that is detected but was neither marked nor known: mask it (mask), or refuse "
      "the request (refuse)")
      ->check(CLI::IsMember({"mask", "refuse"}))
      ->capture_default_str();
  add("--private-types", o.private_types, "SHOWN",
      "Placeholders say what kind of text they stand for, [MAIL_001], or not, [TEXT_001]: on, off")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  add("--log-level", o.log_level, "LEVEL", "What to log: trace, debug, info, warn, error or off")
      ->check(is_log_level())
      ->capture_default_str();
}

void declare_shown_answer_options(CLI::App& app, AnswerOptions& o) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return app.add_option(name, value, what)->type_name(type);
  };
  add("--resync", o.resync, "POLICY",
      "What becomes of text written offline: check (the server corrects it) or keep")
      ->check(CLI::IsMember({"check", "keep"}))
      ->capture_default_str();
  add("--resync-wait-ms", o.resync_wait_ms, "MS",
      "How long an answer waits for the server: to check what ended offline, or to go on if "
      "nobody here can write")
      ->check(in_range(0u, kMillisecondsMax))
      ->capture_default_str();
  add("--pace-ms", o.pace_ms, "MS",
      "Least time of a drafting step: a small drafter at a large one's pace")
      ->check(in_range(0u, 60'000u))
      ->capture_default_str();
  add("--pace-profile", o.pace_profile, "FILE",
      "The same by a device profile (TOML): time of a step by drafter");
  app.add_flag("--json", o.json, "One JSON object an answer on standard output");
}

void declare_experiment_options(CLI::App& app, AnswerOptions& o) {
  constexpr const char* kGroup = "Measurements";
  app.add_option("--cycles", o.cycles,
                 "Write a JSON line a cycle: phases, bytes, round trip, retransmissions")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_flag("--pace-beside-target", o.pace_beside_target,
               "With --pace-profile: the drafter runs on the target's machine")
      ->group(kGroup);
  app.add_option("--offline-after", o.offline_after,
                 "Behave as if the link were gone for good once the answer has N tokens")
      ->type_name("N")
      ->check(in_range(1u, kContextCountMax))
      ->group(kGroup);
  app.add_option("--oracle", o.oracle,
                 "Synthetic drafts: propose the answer in FILE (what --json printed for the "
                 "same prompt) instead of the drafter's own tokens")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--oracle-acceptance", o.oracle_acceptance,
                 "With --oracle: probability that the token proposed for a position is right "
                 "[default: 0.8]")
      ->type_name("A")
      ->check(in_range(0.0, 1.0))
      ->group(kGroup);
  app.add_option("--oracle-seed", o.oracle_seed,
                 "With --oracle: seed that decides which positions are right [default: 0]")
      ->type_name("S")
      ->check(is_seed())
      ->group(kGroup);
}

}  // namespace edgedraft
