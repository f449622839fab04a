#include "tests/bench/overlap_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "netsim/link/link.h"
#include "netsim/profile.h"
#include "shared/base/progress.h"
#include "shared/program/pace_profile.h"
#include "tests/bench/prompts.h"
#include "tests/bench/serving.h"
#include "tests/server/plain_answer.h"

namespace edgedraft::bench {
namespace {

constexpr const char* kHelp =
    R"(Drafting with and without waiting for verdicts, over the shipped networks' delays and losses, at the pace of
named hardware, in simulated time through the client's and the server's own code. Compared:

  stream      plain decoding that the server streams; all others are told by its speed
  sequential  a draft waits for the verdict on the one before: the best of chains of 1, 2, 4, 8 and 16
  chain       overlap: the server goes on by itself, drafts are hints
  tree        the same with trees of breadth 8
  economy     the same without passes for the root alone

Drafters know the answer and err on purpose: --acceptances says how often their likeliest token is right, and
others are as often as the demo's drafters' (docs/drafters.md). p: passes per token, r: rows per token.
Answers are those of prompts that take at least --tokens; each pays a connection's set-up as well, three round
trips and 40 ms, without --no-setup.

Example:
  edgedraft-bench overlap --model models/demo/target.gguf --bundle models/demo/moa-tli0.gguf \
    --prompts models/demo/heldout.jsonl --pace-profile netsim/devices/paper-llama3-8b.toml)";

constexpr std::array<std::uint32_t, 5> kChains{1, 2, 4, 8, 16};
constexpr double kSetupSeconds = 0.040;
constexpr int kSetupRoundTrips = 3;

struct Texts {
  std::vector<std::vector<std::uint32_t>> prompts;
  std::vector<std::vector<std::uint32_t>> answers;
};

// Seconds, passes and rows per token, and the tokens per second of all clients.
struct Figures {
  double seconds = 0.0;
  double passes = 0.0;
  double rows = 0.0;
  double hints = 0.0;
  std::uint32_t chain = 0;
};

double mean_delay(const netsim::LinkOptions& options) {
  constexpr int kPackets = 4000;
  netsim::Link link(options, 7, Instant{});
  double sum = 0.0;
  int delivered = 0;
  for (int i = 0; i < kPackets; ++i) {
    const Instant sent = Instant{} + std::chrono::seconds(i);
    Instant arrives = sent;
    if (link.send(sent, netsim::Link::Packet(100), &arrives) != netsim::Fate::delivered) continue;
    sum += std::chrono::duration<double>(arrives - sent).count();
    ++delivered;
    while (link.receive(arrives)) {
    }
  }
  return sum / std::max(delivered, 1);
}

Result<Texts> texts_of(const OverlapOptions& o, ModelHost& host, const BundleFile& bundle) {
  const auto prompts = read_prompts(o.prompts);
  if (!prompts) return prompts.error();
  const auto chat = bundle.chat_template({});
  if (!chat) return chat.error();
  Texts texts;
  Progress progress("answers", prompts->size());
  for (const Prompt& prompt : *prompts) {
    progress.advance(1);
    const ChatMessage message{.role = "user", .content = prompt.text};
    auto tokens = bundle.encode_chat(*chat, std::span(&message, 1));
    if (!tokens) return tokens.error();
    auto answer =
        testing::plain_answer({host.decoder(), host.context_count(),
                               [&](std::uint32_t t) { return host.tokenizer().is_end(t); }},
                              *tokens, o.tokens);
    if (answer.size() < o.tokens) continue;
    texts.prompts.push_back(*std::move(tokens));
    texts.answers.push_back(std::move(answer));
  }
  if (texts.prompts.empty()) return Error{Errc::usage, "no prompt's answer has --tokens tokens"};
  return texts;
}

class Grid {
 public:
  Grid(const OverlapOptions& o, ModelHost& host, const BundleFile& bundle, Backend& backend,
       const PaceProfile& pace, const Texts& texts)
      : o_(o), host_(host), bundle_(bundle), backend_(backend), pace_(pace), texts_(texts) {}

  struct Arm {
    Overlap overlap = Overlap::off;
    std::optional<TreeShape> tree{};
  };

  Result<Figures> run(const netsim::NetworkProfile& link, double acceptance, const Arm& arm) {
    WorkClock clock(WorkClock::Counts::paces);
    const HostedDrafter& hosted = host_.drafters()[0];
    const std::string drafter = hosted.model->facts().pace_name;
    const auto seconds = [](double s) {
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
    };
    const bool drafts = arm.tree.has_value();
    const auto result =
        simulate_serving({.host = host_,
                          .bundle = drafts ? &bundle_ : nullptr,
                          .tap = drafts ? hosted.tap.get() : nullptr,
                          .device_backend = backend_,
                          .tree = arm.tree,
                          .adapts = !drafts,
                          .clock = clock,
                          .pass_pace = [&](std::uint32_t rows) { return pace_.target_pass(rows); },
                          .step_pace = pace_.draft_step(drafter, PaceProfile::Place::device),
                          .clients = o_.clients,
                          .round_trip = {},
                          .up = &link.up,
                          .down = &link.down,
                          .overlap = arm.overlap,
                          .acceptance = drafts ? std::optional(acceptance) : std::nullopt,
                          .answers = texts_.answers,
                          .warm_up = {},
                          .measured = seconds(o_.seconds),
                          .tokens_max = o_.tokens,
                          .prompts = texts_.prompts});
    if (!result) return result.error();
    const double tokens =
        std::accumulate(result->answer_tokens.begin(), result->answer_tokens.end(), 0.0);
    const auto answers = static_cast<double>(result->answer_seconds.size());
    double taken =
        std::accumulate(result->answer_seconds.begin(), result->answer_seconds.end(), 0.0);
    if (!o_.no_setup) {
      const double round_trip = mean_delay(link.up) + mean_delay(link.down);
      taken += answers * (kSetupSeconds + kSetupRoundTrips * round_trip);
    }
    const auto all = static_cast<double>(std::max<std::uint64_t>(result->tokens, 1));
    return Figures{.seconds = taken / std::max(tokens, 1.0),
                   .passes = static_cast<double>(result->verdicts) / all,
                   .rows = static_cast<double>(result->rows) / all,
                   .hints = static_cast<double>(result->hints) / all};
  }

  Result<Figures> best_chain(const netsim::NetworkProfile& link, double acceptance) {
    std::optional<Figures> best;
    for (const std::uint32_t length : kChains) {
      auto figures = run(link, acceptance, {.tree = chain_shape(length)});
      if (!figures) return figures.error();
      figures->chain = length;
      if (!best || figures->seconds < best->seconds) best = *figures;
    }
    return *best;
  }

 private:
  const OverlapOptions& o_;
  ModelHost& host_;
  const BundleFile& bundle_;
  Backend& backend_;
  const PaceProfile& pace_;
  const Texts& texts_;
};

}  // namespace

void declare_overlap(CLI::App& app, OverlapOptions& o) {
  app.footer(kHelp);
  app.add_option("--model", o.model, "The target")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundle, "The drafter whose activations and pace count")
      ->type_name("FILE.gguf");
  app.add_option("--prompts", o.prompts, "JSON lines with task, prompt")->type_name("FILE");
  app.add_option("--pace-profile", o.pace_profile, "Times of named hardware")
      ->type_name("FILE.toml");
  app.add_option("--links", o.links, "Network profiles")->delimiter(',')->capture_default_str();
  app.add_option("--acceptances", o.acceptances, "Of the drafters")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--clients", o.clients, "Devices at a time")->capture_default_str();
  app.add_option("--tokens", o.tokens, "Of an answer")->capture_default_str();
  app.add_option("--seconds", o.seconds, "Simulated time of each cell")->capture_default_str();
  app.add_flag("--no-setup", o.no_setup, "Connections stand already");
  app.add_flag("--json", o.json, "A line of JSON per cell instead of a table");
}

Result<int> run_overlap(const OverlapOptions& o) {
  if (o.model.empty() || o.bundle.empty() || o.prompts.empty() || o.pace_profile.empty()) {
    return Error{Errc::usage,
                 "give --model FILE.gguf, --bundle FILE.gguf, --prompts FILE and --pace-profile "
                 "FILE.toml"};
  }
  const auto pace = PaceProfile::read(o.pace_profile);
  if (!pace) return pace.error();
  const auto backend = make_cpu_backend({.threads = 1});
  auto host = ModelHost::load(*backend, {.model = o.model, .bundles = {o.bundle}});
  if (!host) return host.error();
  const auto bundle = BundleFile::open(o.bundle, BundleUse::draft);
  if (!bundle) return bundle.error();
  const auto texts = texts_of(o, **host, *bundle);
  if (!texts) return texts.error();
  Grid grid(o, **host, *bundle, *backend, *pace, *texts);
  std::vector<netsim::NetworkProfile> links;
  for (const std::string& name : o.links) {
    auto link = netsim::read_network_profile(name);
    if (!link) return link.error();
    links.push_back(*std::move(link));
  }
  const std::vector<std::pair<std::string, Grid::Arm>> arms{
      {"chain", {.overlap = Overlap::on, .tree = chain_shape(16)}},
      {"tree", {.overlap = Overlap::on, .tree = TreeShape{}}},
      {"economy", {.overlap = Overlap::economy, .tree = TreeShape{}}}};
  if (!o.json) {
    std::printf("%-9s %4s %9s %-26s", "link", "acc", "stream", "sequential, best chain");
    for (const auto& [name, arm] : arms) std::printf(" %-26s", name.c_str());
    std::printf(" %s\n", "of the better");
  }
  for (const auto& link : links) {
    const auto stream = grid.run(link, 0.0, {});
    if (!stream) return stream.error();
    for (const double acceptance : o.acceptances) {
      const auto sequential = grid.best_chain(link, acceptance);
      if (!sequential) return sequential.error();
      nlohmann::ordered_json line{{"link", link.name},
                                  {"acceptance", acceptance},
                                  {"stream_tokens_per_second", 1.0 / stream->seconds}};
      if (!o.json) {
        std::printf("%-9s %4.2f %5.1f t/s", link.name.c_str(), acceptance, 1.0 / stream->seconds);
      }
      const auto tell = [&](const std::string& name, const Figures& f) {
        const double speed = stream->seconds / f.seconds;
        line[name] = {{"speed", speed},
                      {"passes_per_token", f.passes},
                      {"rows_per_token", f.rows},
                      {"hints_per_token", f.hints}};
        if (o.json) return;
        char text[64];
        std::snprintf(text, sizeof text, "%.2fx %.2fp %.1fr%s", speed, f.passes, f.rows,
                      f.chain > 0 ? (" K" + std::to_string(f.chain)).c_str() : "");
        std::printf(" %-26s", text);
        std::fflush(stdout);
      };
      tell("sequential", *sequential);
      const double better = std::min(stream->seconds, sequential->seconds);
      double best = 0.0;
      for (const auto& [name, arm] : arms) {
        const auto figures = grid.run(link, acceptance, arm);
        if (!figures) return figures.error();
        tell(name, *figures);
        if (arm.overlap == Overlap::on) best = std::max(best, better / figures->seconds);
      }
      line["overlap_by_better"] = best;
      std::printf(o.json ? "%s\n" : " %s\n",
                  o.json ? line.dump().c_str() : (std::to_string(best).substr(0, 4) + "x").c_str());
    }
  }
  return 0;
}

}  // namespace edgedraft::bench
