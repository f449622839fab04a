#include "client/commands/client_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <initializer_list>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shared/base/text_file.h"
#include "shared/drafting/index/corpus_index.h"
#include "shared/drafting/kinds.h"
#include "shared/program/endpoint.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"

namespace edgedraft::client {
namespace {

constexpr std::uint32_t kMillisecondsMax = 24 * 3600 * 1000;

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
  return usage_error("'" + text + "': expected BREADTH,DEPTH,NODES, e.g. 8,6,62 (breadth 1 to " +
                     std::to_string(kTreeBreadthMax) + ", depth 1 to " +
                     std::to_string(kTreeDepthMax) + ", nodes 1 to " +
                     std::to_string(kTreeNodesMax) + ", and (depth - 1) * breadth below " +
                     std::to_string(kMaskRowsMax) + "), or the length of a chain, 1 to " +
                     std::to_string(kTreeDepthMax));
}

Result<void> check_indexes(const DrafterWishes& wishes) {
  if (wishes.indexes.empty()) return {};
  if (!(wishes.merges_if_faster && wishes.kind.empty()) && !drafts_from_indexes(wishes.kind) &&
      std::ranges::none_of(wishes.merge, drafts_from_indexes)) {
    return usage_error(
        "--index: no selected drafter reads an index; remove it, or select one with --drafter");
  }
  // Drafts are sent to the server, which must not learn the content of private indexes.
  const auto indexes = CorpusIndex::open_public(wishes.indexes);
  if (!indexes) return Error{indexes.error().code, "--index " + indexes.error().message};
  return {};
}

Result<void> check_drafter(const OptionValues& o) {
  const DrafterWishes& wishes = o.config.drafter;
  if (wishes.bundles.empty()) {
    return usage_error(o.plain
                           ? "--plain needs the tokenizer: give --bundle FILE.gguf, the target or "
                             "any other GGUF with its tokenizer"
                           : "the bundle is missing: give --bundle FILE.gguf, the same file as "
                             "the server's (see --help)");
  }
  if (o.plain && !(wishes.kind.empty() && wishes.merge.empty() && wishes.indexes.empty())) {
    return usage_error("--plain disables drafting: remove --drafter, --drafter-merge and --index");
  }
  if (!wishes.kind.empty() && !is_weightless_kind(wishes.kind)) {
    return usage_error("--drafter " + wishes.kind +
                       ": expected a drafter without weights, one of " + weightless_kind_names());
  }
  for (const std::string& kind : wishes.merge) {
    if (is_weightless_kind(kind)) continue;
    return usage_error("--drafter-merge " + kind + ": expected drafters without weights, of " +
                       weightless_kind_names() + ", or only auto or none");
  }
  if (wishes.bundles.size() > 1 && (o.plain || !wishes.kind.empty())) {
    return usage_error(std::string(o.plain ? "--plain" : "--drafter") +
                       " uses only the tokenizer of --bundle: give one bundle");
  }
  return check_indexes(wishes);
}

constexpr std::uint64_t kNamesBytesMax = 1u << 20;

Result<void> check_privacy(const OptionValues& o, PrivacyGuard::Options& privacy) {
  std::tie(privacy.mode, privacy.shows_types) = o.private_mode;
  for (const std::string& word : o.private_detect) {
    if (word == "none" && o.private_detect.size() == 1) break;
    if (word == "refuse") {
      privacy.refuses_detected = true;
      continue;
    }
    std::string known;
    bool found = false;
    for (const PrivateType type : kDetectedTypes) {
      if (word == "all" || word == to_string(type)) privacy.detects.push_back(type);
      found = found || word == "all" || word == to_string(type);
      known += std::string(to_string(type)) + ", ";
    }
    if (!found)
      return usage_error("--private-detect " + word + ": expected any of " + known +
                         "all and refuse, or only none");
  }
  if (privacy.refuses_detected && privacy.detects.empty()) {
    return usage_error(
        "--private-detect refuse: no detector is enabled, so nothing would be refused; add the "
        "types to refuse, or all");
  }
  if (o.private_names.empty()) return {};
  auto names = read_text(o.private_names, kNamesBytesMax);
  if (!names) return Error{names.error().code, "--private-names " + names.error().message};
  std::istringstream lines(*names);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) privacy.names.push_back(std::move(line));
  }
  if (privacy.names.size() > PrivateVault::kNamesMax) {
    return usage_error("--private-names " + o.private_names.string() + ": it has " +
                       std::to_string(privacy.names.size()) + " names, more than the limit of " +
                       std::to_string(PrivateVault::kNamesMax) + ": shorten it");
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
      {"--token-file -", &o.config.trust.token_file},
      {"--chat-template -", &o.config.chat_template},
      {"--private-names -", &o.private_names}};
  for (const auto& [option, file] : files) {
    if (*file != "-") continue;
    if (!reader.empty()) {
      return usage_error(option + ": standard input is already used " + reader + "; name a file");
    }
    reader = "for " + option;
  }
  return {};
}

Result<void> check_server_options(ClientSettings& config) {
  const auto server = parse_endpoint(config.server, EndpointUse::connect);
  if (!server) return usage_error("--server: " + server.error().message);
  config.host = server->host;
  config.port = std::to_string(server->port);
  auto token = check_trust(config.trust);
  if (!token) return token.error();
  config.token = *std::move(token);
  return {};
}

Result<ClientSettings> check_answer_options(const OptionValues& o) {
  ClientSettings config = o.config;
  if (auto right = check_drafter(o); !right) return right.error();
  if (auto right = check_server_options(config); !right) return right.error();
  GenerationOptions& g = config.generation;
  if (!o.plain) g.tree = o.tree;
  g.sampling.seed = o.seed.value_or(0);
  if (o.plain && config.offline_bundle.empty() &&
      (config.memory_limit != MemoryMeter::kUnlimited || config.drafted_positions > 0)) {
    return usage_error("--memory and --ctx apply to a drafter, and --plain has none: remove them");
  }
  if (auto right = check_privacy(o, config.privacy); !right) return right.error();
  return config;
}

void declare_server_options(CLI::App& app, ClientSettings& config) {
  app.add_option("--server", config.server, "Address of the server")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::connect))
      ->capture_default_str();
  declare_trust(app, config.trust);
}

void declare_answer_options(CLI::App& app, OptionValues& o) {
  ClientSettings& config = o.config;
  DrafterWishes& wishes = config.drafter;
  SamplingParams& sampling = config.generation.sampling;
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return app.add_option(name, value, what)->type_name(type);
  };
  add("--bundle", wishes.bundles, "FILE.gguf",
      "Bundle with the drafter; the same file as the server's. Repeatable: after each has been "
      "tried, the fastest is used. With --plain: any model with the target's tokenizer")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--offline-bundle", config.offline_bundle, "FILE.gguf",
      "Model that writes while the server is unreachable: a drafter that needs only tokens, or any "
      "model with the same tokenizer. It may be larger than the drafter [the drafter, unless it "
      "needs activations and has received none]");
  add("--drafter", wishes.kind, "KIND",
      ("Drafter without weights to use instead of the bundle's: " + weightless_kind_names())
          .c_str());
  using Words = std::vector<std::string>;
  const auto merge = [&wishes](const Words& words) {
    wishes.merges_if_faster = words == Words{"auto"};
    wishes.merge = wishes.merges_if_faster || words == Words{"none"} ? Words() : words;
  };
  app.add_option_function<Words>("--drafter-merge", merge,
                                 "Add proposals of drafters without weights to the drafter's "
                                 "trees; auto: if measured to be faster; none: never")
      ->type_name("KIND,...")
      ->delimiter(',')
      ->default_str("auto");
  add("--index", wishes.indexes, "FILE",
      "Index of public texts to copy from, built by `edgedraft index --public`. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--plain", o.plain, "Disable drafting on the device: the server streams the answer");
  declare_server_options(app, config);
  app.add_option_function<std::string>(
         "--tree", [&o](const std::string& text) { o.tree = parse_tree(text).value(); },
         "Shape of the draft trees; a single number: a chain of that many tokens [8,6,62]")
      ->type_name("BREADTH,DEPTH,NODES")
      ->check(accepted_by(parse_tree));
  add_named(app, "--hold", config.generation.hold, "MODE",
            {{"auto", std::nullopt},
             {"none", Hold::none},
             {"economy", Hold::economy},
             {"lockstep", Hold::lockstep}},
            "Hints that a pass on the server waits for. none: it uses those that have arrived; "
            "economy: it waits for hints on their way (fewer passes, slower over long links); "
            "lockstep: it waits for the complete tree (one round trip per pass); auto: the client "
            "predicts the fastest of none, economy and no drafting");
  add("-n,--max-tokens", config.generation.tokens_max, "N",
      "Maximum length of an answer, in tokens")
      ->check(in_range(1u, kContextCountMax))
      ->capture_default_str();
  add("--temperature", sampling.temperature, "T",
      "Sampling temperature; 0: always the most likely token")
      ->check(in_range(0.0, 100.0))
      ->capture_default_str();
  add("--top-k", sampling.top_k, "K", "Sample from the K most likely tokens; 0: from all")
      ->check(in_range(0u, kTokenIdEnd))
      ->capture_default_str();
  add("--top-p", sampling.top_p, "P",
      "Sample from the most likely tokens whose probabilities sum to P; 1: from all")
      // Smaller values would become 0 in the float32 that is sent.
      ->check(in_range(1e-30, 1.0))
      ->capture_default_str();
  add("--min-p", sampling.min_p, "P",
      "Sample from tokens with at least P times the highest probability")
      ->check(in_range(0.0, 1.0))
      ->capture_default_str();
  add("--seed", o.seed, "S",
      "Seed of the sampler: the same seed gives the same answer, drafted or plain [0; serve: "
      "random per request]")
      ->check(is_seed());
  add_milliseconds(app, "--deadline-ms", config.generation.deadline, 1, kMillisecondsMax,
                   "Silence of the server after which the drafter continues alone");
  app.add_flag("--pad", config.pads,
               "Hide message sizes and times: both sides send one block of constant size every 20 "
               "ms, so that a network observer sees only when an answer begins and ends. Costs "
               "bandwidth and some milliseconds per token");
  app.add_option_function<std::string>(
         "--device",
         [&config](const std::string& text) { config.device = parse_device_request(text).value(); },
         "Device that drafts: cpu, vulkan:N, vulkan (the best Vulkan device) or auto (the fastest "
         "for this drafter); `edgedraft devices` lists them")
      ->type_name("DEVICE")
      ->check(accepted_by(parse_device_request))
      ->default_str("auto");
  add("--threads", config.thread_count, "N", "CPU threads of the drafter; 0: one per fast core")
      ->check(in_range(0u, 1024u))
      ->capture_default_str();
  add_named(
      app, "--kv-type", config.kv_type, "TYPE",
      {{"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}, {"int8", DType::i8}},
      "Type of the drafter's KV cache: f32; f16 or bf16, which take half the memory; or int8, "
      "which takes 9/32 of it. A GPU that does not support the type uses f32: bf16, and f16 "
      "without 16-bit storage");
  add("--memory", config.memory_limit, "BYTES",
      "Memory limit of the drafters, e.g. 512MB (units of 1024): for KV caches, working memory, "
      "and weights that are not used in place in the mapped file. If the whole context does not "
      "fit, they draft in its first part only [no limit]")
      ->transform(as_byte_size());
  add("--ctx", config.drafted_positions, "N",
      "Context length for drafting; beyond it, answers continue undrafted. The KV caches grow with "
      "it [the bundle's context]")
      ->check(in_range(1u, kContextCountMax));
  add("--chat-template", config.chat_template, "FILE",
      "Jinja chat template to use instead of the bundle's");
  add_named(
      app, "--private", o.private_mode, "MODE",
      {{"mask", {PrivateMode::mask, true}},
       {"mask-types", {PrivateMode::mask, false}},
       {"local", {PrivateMode::local, true}},
       {"prefix", {PrivateMode::prefix, true}},
       {"off", {PrivateMode::off, true}}},
      "Handling of private text, which is marked <private>...</private>, listed by "
      "--private-names or found by --private-detect. mask: send placeholders, such as "
      "[MAIL_001], and restore the values in the answer; mask-types: the same with "
      "[TEXT_001], which hides the type; local: send nothing of the request, and answer on the "
      "device; prefix: like local, but send the text before the first private text, for its "
      "activations; off: send everything unchanged");
  add("--private-detect", o.private_detect, "TYPE,...",
      "Types of private text to detect: mail, phone, card, iban, address, key; all; none. refuse: "
      "refuse requests with detected text that was neither marked nor known, instead of masking "
      "it")
      ->delimiter(',')
      ->capture_default_str();
  add("--private-names", o.private_names, "FILE",
      "File with private names, one per line, 10,000 at most");
  add("--log-level", config.log_level, "LEVEL",
      "Lowest level to log: trace, debug, info, warn, error or off")
      ->check(is_log_level())
      ->capture_default_str();
}

void declare_shown_answer_options(CLI::App& app, OptionValues& o) {
  add_named(app, "--resync", o.config.generation.resync, "POLICY",
            {{"check", wire::ResyncPolicy::check}, {"keep", wire::ResyncPolicy::keep}},
            "Handling of text written offline: check (the server corrects it) or keep");
  add_milliseconds(app, "--resync-wait-ms", o.config.generation.resync_wait, 0, kMillisecondsMax,
                   "How long an answer waits for the server: to check text that ended offline, or "
                   "to continue if no local drafter can write");
  app.add_flag("--json", o.config.json, "Print one JSON object per answer to standard output");
}

}  // namespace edgedraft::client
