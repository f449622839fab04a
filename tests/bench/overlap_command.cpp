#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "netsim/pace_profile.h"
#include "netsim/prediction.h"
#include "netsim/profile.h"
#include "netsim/report/statistics.h"
#include "netsim/run/experiment.h"
#include "shared/base/error.h"
#include "shared/base/progress.h"
#include "shared/program/program.h"
#include "shared/program/validators.h"
#include "shared/protocol/activation_codec.h"
#include "shared/protocol/limits.h"
#include "tests/bench/commands.h"
#include "tests/bench/drafter_arms.h"
#include "tests/bench/draws.h"
#include "tests/bench/serving.h"
#include "tests/server/plain_answer.h"

namespace edgedraft::bench {
namespace {

struct OverlapOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::filesystem::path prompts;
  std::filesystem::path pace_profile;
  std::vector<std::string> links{"lan", "5g-near",  "paper-5g", "4g-good",
                                 "leo", "paper-4g", "4g-busy",  "5g-far"};
  std::vector<double> acceptances{0.5, 0.6, 0.7, 0.8, 0.9};
  bool own_drafts = false;
  bool padded_payloads = false;
  std::uint32_t clients = 1;
  std::uint32_t listeners = 0;
  std::uint32_t tokens = 96;
  double seconds = 20.0;
  std::uint32_t seeds = 8;
  bool no_setup = false;
  bool json = false;
};

constexpr const char* kOverlapHelp =
    R"(Drafting with and without waiting for verdicts, over the delays and losses of the shipped networks, at the
pace of named hardware, in simulated time through the client's and the server's own code. Arms:

  stream      plain decoding; the others' speeds are relative to it
  sequential  each draft waits for the verdict on the one before: the best of chains of 1, 2, 4, 8 and 16 (K)
              and of trees of 12 and 62 nodes (T)
  chain       overlap: the server continues by itself, drafts are hints
  tree        overlap with trees of breadth 8
  economy     overlap with trees, without passes for the root alone

Drafters know the answer and err on purpose. --acceptances sets how often their likeliest token is right;
other proposals are right as often as the demo drafters' (docs/records/drafters/comparison.md). With
--own-drafts the bundle drafts; prompts with shorter answers count too, in an order shuffled by a fixed seed.

p: passes per token, r: rows per token. In parentheses: by how much netsim/prediction.h overestimates the
speed. After the last column: the 95 % interval over seeds (five or more).

With --clients speeds count the tokens of all devices, once all have begun, and nothing is predicted.
Answers are those of prompts that take at least --tokens. Without --no-setup each includes a connection's
setup, three round trips and 40 ms.

Example:
  edgedraft-bench overlap --model models/demo/target.gguf --bundle models/demo/moa-tli0.gguf \
    --prompts models/demo/heldout.jsonl --pace-profile netsim/devices/paper-llama3-8b.toml)";

// Simulated seconds before measurement, because many devices begin at once.
constexpr double kCrowdWarmUp = 4.0;

struct AnsweredTexts {
  std::vector<std::vector<std::uint32_t>> prompts;
  std::vector<std::vector<std::uint32_t>> answers;
};

struct FiguresPerToken {
  double seconds = 0.0;
  double passes = 0.0;
  double rows = 0.0;
  double hints = 0.0;
  double listener_speed = 0.0;  // tokens per second of a device that drafts nothing
};

using Runs = std::vector<FiguresPerToken>;  // by seed

FiguresPerToken mean(const Runs& runs) {
  FiguresPerToken sum;
  for (const FiguresPerToken& run : runs) {
    const auto n = static_cast<double>(runs.size());
    sum.seconds += run.seconds / n;
    sum.passes += run.passes / n;
    sum.rows += run.rows / n;
    sum.hints += run.hints / n;
    sum.listener_speed += run.listener_speed / n;
  }
  return sum;
}

// The speed ratio of ours to theirs, over the seeds.
netsim::Estimate speed_ratio(const Runs& ours, const Runs& theirs) {
  std::vector<netsim::Pair> pairs;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    pairs.push_back({.group = std::to_string(i),
                     .ours = 1.0 / ours[i].seconds,
                     .theirs = 1.0 / theirs[i].seconds});
  }
  return netsim::ratio_of(pairs);
}

struct DraftingArm {
  std::string name;
  Hold hold = Hold::lockstep;
  std::optional<TreeShape> tree{};  // empty: plain decoding
};

std::string fixed(double number) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", number);
  return text;
}

std::vector<DraftingArm> sequential_arms() {
  std::vector<DraftingArm> arms;
  for (const std::uint32_t length : {1u, 2u, 4u, 8u, 16u}) {
    arms.push_back({.name = "K" + std::to_string(length), .tree = chain_shape(length)});
  }
  arms.push_back({.name = "T4", .tree = TreeShape{.breadth = 4, .depth = 4, .nodes = 12}});
  arms.push_back({.name = "T6", .tree = TreeShape{}});
  return arms;
}

Result<AnsweredTexts> texts_of(const OverlapOptions& o, ModelHost& host, const BundleFile& bundle) {
  auto prompts = netsim::read_prompts(o.prompts);
  if (!prompts) return prompts.error();
  if (o.own_drafts) shuffle_prompts(*prompts);
  auto encoded = encode_prompts(bundle, *prompts);
  if (!encoded) return encoded.error();
  AnsweredTexts texts;
  Progress progress("answers", encoded->size());
  for (auto& tokens : *encoded) {
    progress.advance(1);
    auto answer =
        testing::plain_answer({host.decoder(), host.context_count(),
                               [&](std::uint32_t t) { return host.tokenizer().is_end(t); }},
                              tokens, o.tokens);
    if (answer.size() < o.tokens && !o.own_drafts) continue;
    texts.prompts.push_back(std::move(tokens));
    texts.answers.push_back(std::move(answer));
  }
  if (texts.prompts.empty()) {
    return Error{Errc::usage, "--tokens: no prompt's answer is that long; give fewer"};
  }
  return texts;
}

class Grid {
 public:
  Grid(const OverlapOptions& o, ModelHost& host, const DrafterArm& drafter, Backend& backend,
       const PaceProfile& pace, const AnsweredTexts& texts)
      : o_(o), host_(host), drafter_(drafter), backend_(backend), pace_(pace), texts_(texts) {}

  // The acceptance of oracle drafters; empty: the bundle drafts.
  using Acceptance = std::optional<double>;

  Result<FiguresPerToken> run(const netsim::NetworkProfile& link, Acceptance acceptance,
                              const DraftingArm& arm, std::uint64_t seed) {
    WorkClock clock(WorkClock::Counts::paces);
    const bool drafts = arm.tree.has_value();
    const bool crowd = o_.clients > 1;
    const auto result =
        simulate_serving({.host = host_,
                          .drafter = drafts ? &drafter_ : nullptr,
                          .device_backend = backend_,
                          .tree = arm.tree.value_or(TreeShape{}),
                          .clock = clock,
                          .pace = &pace_,
                          .clients = o_.clients,
                          .listeners = o_.listeners,
                          .round_trip = {},
                          .up = &link.up,
                          .down = &link.down,
                          .seed = seed,
                          .hold = arm.hold,
                          .padded_payloads = o_.padded_payloads,
                          .acceptance = drafts ? acceptance : std::nullopt,
                          .answers = texts_.answers,
                          .warm_up = crowd ? from_seconds(kCrowdWarmUp) : Duration::zero(),
                          .measured = from_seconds(o_.seconds),
                          .tokens_max = o_.tokens,
                          .prompts = texts_.prompts});
    if (!result) return result.error();
    if (!crowd && result->answer_seconds.empty()) {
      return Error{Errc::usage, "--seconds: no answer ended in time; give more"};
    }
    const auto all = static_cast<double>(std::max<std::uint64_t>(result->tokens, 1));
    return FiguresPerToken{
        .seconds = crowd ? result->seconds / all : seconds_per_token(link, *result),
        .passes = static_cast<double>(result->verdicts) / all,
        .rows = static_cast<double>(result->rows) / all,
        .hints = static_cast<double>(result->hints) / all,
        .listener_speed = static_cast<double>(result->listened) / result->seconds /
                          (drafts ? o_.listeners : o_.clients)};
  }

  // The mean over completed answers, including their connections.
  double seconds_per_token(const netsim::NetworkProfile& link, const ServingResult& result) const {
    const double tokens =
        std::accumulate(result.answer_tokens.begin(), result.answer_tokens.end(), 0.0);
    double taken = std::accumulate(result.answer_seconds.begin(), result.answer_seconds.end(), 0.0);
    const auto answers = static_cast<double>(result.answer_seconds.size());
    if (!o_.no_setup) taken += answers * netsim::setup_seconds(link);
    return taken / std::max(tokens, 1.0);
  }

  // Adds the missing runs for seeds up to `to`.
  Result<void> add_runs(const netsim::NetworkProfile& link, Acceptance acceptance,
                        const DraftingArm& arm, std::uint32_t to, Runs& runs) {
    while (runs.size() < to) {
      auto figures = run(link, acceptance, arm, runs.size() + 1);
      if (!figures) return figures.error();
      runs.push_back(*figures);
    }
    return boost::system::in_place_value;
  }

  // The arm that is fastest over the first seeds, with its runs over all seeds.
  Result<std::pair<DraftingArm, Runs>> best_sequential(const netsim::NetworkProfile& link,
                                                       Acceptance acceptance) {
    const std::uint32_t tried = std::min(2u, o_.seeds);
    std::optional<std::pair<DraftingArm, Runs>> best;
    for (const DraftingArm& arm : sequential_arms()) {
      Runs runs;
      if (auto made = add_runs(link, acceptance, arm, tried, runs); !made) return made.error();
      if (!best || mean(runs).seconds < mean(best->second).seconds) best = {arm, std::move(runs)};
    }
    if (auto made = add_runs(link, acceptance, best->first, o_.seeds, best->second); !made) {
      return made.error();
    }
    return *std::move(best);
  }

  double predicted_seconds(const netsim::NetworkProfile& link, double acceptance,
                           const DraftingArm& arm) const {
    std::size_t prompt_tokens = 0;
    for (const auto& prompt : texts_.prompts) prompt_tokens += prompt.size();
    const RunKind kind = !arm.tree                    ? RunKind::stream
                         : arm.hold == Hold::lockstep ? RunKind::sequential
                         : arm.hold == Hold::economy  ? RunKind::economy
                                                      : RunKind::overlap;
    const TreeShape shape = arm.tree.value_or(TreeShape{});
    const auto groups = drafter_.tap->scale_groups();
    const ActivationLayout own(std::vector<std::uint32_t>(groups.begin(), groups.end()));
    const std::uint32_t padded = o_.padded_payloads ? pace_.activation_bytes(pace_name_) : 0;
    constexpr std::uint32_t kAnswers = 200;
    return netsim::predict(
               {.network = link,
                .pace = pace_,
                .drafter = pace_name_,
                .kind = kind,
                .shape = {.breadth = shape.breadth, .depth = shape.depth, .nodes = shape.nodes},
                .acceptance = acceptance,
                .row_bytes = std::max(own.row_bytes(), padded),
                .prompt_rows = static_cast<std::uint32_t>(prompt_tokens / texts_.prompts.size()),
                .tokens = o_.tokens,
                .setup = !o_.no_setup},
               kAnswers, 1)
        .seconds;
  }

 private:
  const OverlapOptions& o_;
  ModelHost& host_;
  const DrafterArm& drafter_;
  std::string pace_name_ = drafter_.file.drafter_facts().pace_name;
  Backend& backend_;
  const PaceProfile& pace_;
  const AnsweredTexts& texts_;
};

// Prints the cells in order, and how many of them the model predicts.
Result<int> tell_grid(const OverlapOptions& o, Grid& grid,
                      std::span<const netsim::NetworkProfile> links) {
  const std::vector<DraftingArm> arms{
      {.name = "chain", .hold = Hold::none, .tree = chain_shape(16)},
      {.name = "tree", .hold = Hold::none, .tree = TreeShape{}},
      {.name = "economy", .hold = Hold::economy, .tree = TreeShape{}}};
  if (!o.json) {
    std::printf("%-8s %4s %8s  %-30s", "link", "acc", "stream", "sequential, best");
    for (const DraftingArm& arm : arms) std::printf(" %-27s", arm.name.c_str());
    std::printf(" %s\n", "tree vs better");
  }
  std::vector<Grid::Acceptance> acceptances(o.acceptances.begin(), o.acceptances.end());
  if (o.own_drafts) acceptances = {std::nullopt};
  std::uint32_t cells = 0;
  std::uint32_t foreseen = 0;
  for (const auto& link : links) {
    Runs stream;
    if (auto made = grid.add_runs(link, {}, {.name = "stream"}, o.seeds, stream); !made) {
      return made.error();
    }
    for (const Grid::Acceptance acceptance : acceptances) {
      nlohmann::ordered_json line{{"link", link.name},
                                  {"acceptance", acceptance ? nlohmann::ordered_json(*acceptance)
                                                            : nlohmann::ordered_json()},
                                  {"stream_tokens_per_second", 1.0 / mean(stream).seconds}};
      if (!o.json) {
        std::printf("%-8s %4s %4.1f t/s", link.name.c_str(),
                    acceptance ? fixed(*acceptance).c_str() : "own", 1.0 / mean(stream).seconds);
      }
      const auto tell = [&](const std::string& name, const DraftingArm& arm, const Runs& runs) {
        const FiguresPerToken f = mean(runs);
        const netsim::Estimate speed = speed_ratio(runs, stream);
        line[name] = {{"speed", speed.value},
                      {"speed_interval", nullptr},
                      {"passes_per_token", f.passes},
                      {"rows_per_token", f.rows},
                      {"hints_per_token", f.hints}};
        if (speed.known) line[name]["speed_interval"] = {speed.low, speed.high};
        std::string deviation;
        if (acceptance && o.clients == 1) {
          const double off = f.seconds / grid.predicted_seconds(link, *acceptance, arm) - 1.0;
          ++cells;
          if (std::abs(off) <= 0.1) ++foreseen;
          line[name]["predicted_speed"] = speed.value * (1.0 + off);
          char percent[16];
          std::snprintf(percent, sizeof percent, "(%+.0f%%)", 100.0 * off);
          deviation = percent;
        }
        if (arm.hold == Hold::lockstep) line[name]["arm"] = arm.name;
        std::string listeners;
        if (o.listeners > 0) {
          const double listened = f.listener_speed / mean(stream).listener_speed;
          line[name]["listeners_speed"] = listened;
          listeners = "listeners " + fixed(listened) + "x ";
        }
        if (o.json) return;
        char text[80];
        std::snprintf(text, sizeof text, " %.2fx %.2fp %.1fr %s%s%s", speed.value, f.passes, f.rows,
                      arm.hold == Hold::lockstep ? (arm.name + " ").c_str() : "", listeners.c_str(),
                      deviation.c_str());
        std::printf(" %-27s", text);
        std::fflush(stdout);
      };
      const auto sequential = grid.best_sequential(link, acceptance);
      if (!sequential) return sequential.error();
      tell("sequential", sequential->first, sequential->second);
      const bool stream_is_better = mean(stream).seconds < mean(sequential->second).seconds;
      const Runs& better = stream_is_better ? stream : sequential->second;
      netsim::Estimate gain;
      for (const DraftingArm& arm : arms) {
        Runs runs;
        if (auto made = grid.add_runs(link, acceptance, arm, o.seeds, runs); !made) {
          return made.error();
        }
        tell(arm.name, arm, runs);
        if (arm.name == "tree") gain = speed_ratio(runs, better);
      }
      line["tree_by_better"] = {gain.value, nullptr, nullptr};
      if (gain.known) line["tree_by_better"] = {gain.value, gain.low, gain.high};
      if (o.json) {
        std::printf("%s\n", line.dump().c_str());
      } else {
        std::printf(" %.2fx", gain.value);
        if (gain.known) std::printf(" (%.2f to %.2f)", gain.low, gain.high);
        std::printf("\n");
      }
      std::fflush(stdout);
    }
  }
  if (!o.json && cells > 0)
    std::printf("predicted within 10 %%: %u of %u cells\n", foreseen, cells);
  return 0;
}

void declare_overlap(CLI::App& app, OverlapOptions& o) {
  app.footer(kOverlapHelp);
  app.add_option("--model", o.model, "Target model")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundle, "Drafter that sets activations and pace")
      ->type_name("FILE.gguf");
  app.add_option("--prompts", o.prompts, "Prompts: JSON lines with `task` and `prompt`")
      ->type_name("FILE");
  app.add_option("--pace-profile", o.pace_profile,
                 "Device profile with the times of named hardware")
      ->type_name("FILE.toml");
  app.add_option("--links", o.links, "Networks: names or files of profiles")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--acceptances", o.acceptances, "Acceptance rates to simulate")
      ->check(in_range(0.0, 1.0))
      ->delimiter(',')
      ->capture_default_str();
  app.add_flag("--own-drafts", o.own_drafts, "Draft with the bundle instead of synthetic drafters");
  app.add_flag("--padded-payloads", o.padded_payloads,
               "Activations have the paced model's size instead of the small one's");
  app.add_option("--clients", o.clients, "Devices at the same time")
      ->check(in_range(1u, 4096u))
      ->capture_default_str();
  app.add_option("--listeners", o.listeners,
                 "Devices among these that do not draft; their speed is relative to a run in which "
                 "no device drafts")
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "Tokens per answer")
      ->check(in_range(2u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "Simulated time per cell and seed")
      ->check(in_range(1e-6, 86'400.0))
      ->capture_default_str();
  app.add_option("--seeds", o.seeds, "Seeds to run, of links and drafters' errors")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--no-setup", o.no_setup, "Skip the setup of connections");
  app.add_flag("--json", o.json, "One JSON line per cell instead of a table");
}

Result<int> run_overlap(const OverlapOptions& o) {
  if (o.model.empty() || o.bundle.empty() || o.prompts.empty() || o.pace_profile.empty()) {
    return Error{Errc::usage,
                 "give --model FILE.gguf, --bundle FILE.gguf, --prompts FILE and --pace-profile "
                 "FILE.toml"};
  }
  if (o.listeners > 0 && o.listeners >= o.clients) {
    return Error{Errc::usage, "--listeners must be fewer than --clients"};
  }
  const auto pace = PaceProfile::read(o.pace_profile);
  if (!pace) return pace.error();
  const auto backend = make_cpu_backend({.threads = 1});
  auto host = ModelHost::load(*backend, {.model = o.model, .bundles = {o.bundle}});
  if (!host) return host.error();
  const auto opened = open_arms({.model = o.model, .bundles = {o.bundle}}, **host);
  if (!opened) return opened.error();
  const DrafterArm& drafter = opened->front();
  if (auto good = check_pace(*pace, drafter.file.drafter_facts(),
                             o.padded_payloads ? Payloads::padded : Payloads::own);
      !good) {
    return good.error();
  }
  const auto texts = texts_of(o, **host, drafter.file);
  if (!texts) return texts.error();
  Grid grid(o, **host, drafter, *backend, *pace, *texts);
  const auto links = read_links(o.links);
  if (!links) return links.error();
  return tell_grid(o, grid, *links);
}

}  // namespace

void add_overlap(Program& program) {
  static OverlapOptions options;
  program.command("overlap", "Drafting without waiting for verdicts, over networks", options,
                  declare_overlap, run_overlap);
}

}  // namespace edgedraft::bench
