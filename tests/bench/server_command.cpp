#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netsim/lab/paced_proposer.h"
#include "netsim/pace_profile.h"
#include "netsim/run/experiment.h"
#include "shared/base/error.h"
#include "shared/base/percentile.h"
#include "shared/base/progress.h"
#include "shared/program/program.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"
#include "tests/bench/commands.h"
#include "tests/bench/drafter_arms.h"
#include "tests/bench/draws.h"
#include "tests/bench/serving.h"

namespace edgedraft::bench {
namespace {

struct ServerBenchOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::filesystem::path prompts;
  std::vector<std::uint32_t> clients = {1, 4, 16, 64};
  std::vector<std::uint32_t> tree = {8, 6, 62};
  double rtt_ms = 20.0;
  double seconds = 3.0;
  std::uint32_t max_tokens = 160;
  std::uint32_t threads = 0;
  std::vector<std::string> arms = {"stream", "tree", "split", "server"};
  std::filesystem::path pace_profile;
  bool cold = false;
  bool processor_time = false;
  bool json = false;
};

constexpr const char* kServerHelp =
    R"(One server, many devices that send one held-out prompt after another, in simulated time: passes and drafts
take their real time on this machine, one at a time, but each device drafts on its own machine, --rtt-ms
away. Arms:

  stream  plain decoding: runs without hints, one token per pass
  tree    split with hold lockstep: every draft is a full tree, whatever the load
  split   split with hold auto: hints or none, whichever the device expects to be faster
  server  the server drafts for itself with the same drafter

tok/s: tokens of all devices. tok/pass: of all devices. passes/tok: verdicts per token of one device, 1 for
stream. streamed: share of tokens that arrived while their device sent no hints. busy: share of the
server's time. gap: time between visible updates on a device.

Prompts come in an order shuffled by a fixed seed, and each arm answers as many as fit into --seconds: few
devices see few of the prompts, and arms of different speeds see different ones. Increase --seconds for
close comparisons.

With --pace-profile all time is simulated: a target pass takes the device profile's time for its rows, a
drafting step its time for the drafter, and other computation takes none. Texts and acceptance remain the
small models' own. The result is the same on every machine.

Example:
  edgedraft-bench server --model models/demo/target.gguf --bundle models/demo/moa-tli0.gguf \
    --prompts models/demo/heldout.jsonl --clients 1,4,16,64)";

struct Line {
  std::string arm;
  std::uint32_t clients;
  ServingResult result;
};

nlohmann::ordered_json to_json(const Line& line) {
  const ServingResult& r = line.result;
  const auto tokens = static_cast<double>(r.tokens);
  return {{"clients", line.clients},
          {"arm", line.arm},
          {"tokens_per_second", tokens / r.seconds},
          {"server_tokens_per_busy_second", r.busy_seconds > 0 ? tokens / r.busy_seconds : 0.0},
          {"passes", r.passes},
          {"rows_per_pass",
           r.passes > 0 ? static_cast<double>(r.rows) / static_cast<double>(r.passes) : 0.0},
          {"rows_per_token", r.tokens > 0 ? static_cast<double>(r.rows) / tokens : 0.0},
          {"tokens_per_pass", r.passes > 0 ? tokens / static_cast<double>(r.passes) : 0.0},
          {"passes_per_token", r.tokens > 0 ? static_cast<double>(r.verdicts) / tokens : 0.0},
          {"streamed", r.tokens > 0 ? static_cast<double>(r.streamed) / tokens : 0.0},
          {"busy", r.busy_seconds / r.seconds},
          {"first_token_ms_p50", 1e3 * percentile(r.first_token_seconds, 0.5)},
          {"first_token_ms_p95", 1e3 * percentile(r.first_token_seconds, 0.95)},
          {"gap_ms_p50", 1e3 * percentile(r.gap_seconds, 0.5)},
          {"gap_ms_p95", 1e3 * percentile(r.gap_seconds, 0.95)}};
}

void print(const std::vector<Line>& lines) {
  std::printf("%8s %-7s %9s %9s %9s %10s %9s %9s %6s %16s %16s\n", "clients", "arm", "tok/s",
              "vs stream", "tok/pass", "passes/tok", "streamed", "rows/pass", "busy",
              "first ms p50/95", "gap ms p50/95");
  std::map<std::uint32_t, double> streams;  // tokens per second, by clients
  for (const Line& line : lines) {
    if (line.arm == "stream") streams[line.clients] = to_json(line)["tokens_per_second"];
  }
  for (const Line& line : lines) {
    const auto j = to_json(line);
    const double rate = j["tokens_per_second"];
    const auto found = streams.find(line.clients);
    const double stream = found == streams.end() ? 0.0 : found->second;
    std::printf(
        "%8u %-7s %9.0f %8.2fx %9.2f %10.2f %8.0f%% %9.1f %5.0f%% %8.1f/%7.1f %8.1f/%7.1f\n",
        line.clients, line.arm.c_str(), rate, stream > 0 ? rate / stream : 0.0,
        j["tokens_per_pass"].get<double>(), j["passes_per_token"].get<double>(),
        100 * j["streamed"].get<double>(), j["rows_per_pass"].get<double>(),
        100 * j["busy"].get<double>(), j["first_token_ms_p50"].get<double>(),
        j["first_token_ms_p95"].get<double>(), j["gap_ms_p50"].get<double>(),
        j["gap_ms_p95"].get<double>());
  }
}

void declare_server(CLI::App& app, ServerBenchOptions& o) {
  app.footer(kServerHelp);
  app.add_option("--model", o.model, "Target model")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundle, "Drafter of the devices")->type_name("FILE.gguf");
  app.add_option("--prompts", o.prompts, "Prompts: JSON lines with `task` and `prompt`")
      ->type_name("FILE");
  app.add_option("--clients", o.clients, "Numbers of devices, one run each [1,4,16,64]")
      ->delimiter(',');
  app.add_option("--tree", o.tree, "Tree shape: breadth, depth, nodes [8,6,62]")->delimiter(',');
  app.add_option("--rtt-ms", o.rtt_ms, "Round trip of a device")
      ->check(in_range(0.0, 60'000.0))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "Simulated time of each run")
      ->check(in_range(1e-6, 86'400.0))
      ->capture_default_str();
  app.add_option("--max-tokens", o.max_tokens, "Maximum tokens of an answer")
      ->check(in_range(1u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "CPU threads; 0: one per fast core")
      ->capture_default_str();
  app.add_option("--arms", o.arms, "Arms to run: a list of stream,tree,split,server")
      ->delimiter(',')
      ->check(CLI::IsMember({"stream", "tree", "split", "server"}));
  app.add_option("--pace-profile", o.pace_profile,
                 "Simulated times of named hardware, such as netsim/devices/llama3-70b-h100.toml")
      ->type_name("FILE.toml");
  app.add_flag("--cold", o.cold, "Skip the server's measurement of passes at start");
  app.add_flag("--processor-time", o.processor_time,
               "Measure processor time instead of wall time, for a busy machine; one thread");
  app.add_flag("--json", o.json, "JSON instead of a table");
}

// Measures one server's throughput for many devices. Returns the exit status.
Result<int> run_server(const ServerBenchOptions& o) {
  if (o.model.empty() || o.bundle.empty() || o.prompts.empty()) {
    return Error{Errc::usage,
                 "give the target with --model FILE.gguf, the drafter with --bundle FILE.gguf, "
                 "prompts with --prompts FILE"};
  }
  const auto shape = tree_of(o.tree);
  if (!shape) return shape.error();
  PaceProfile profile;
  if (!o.pace_profile.empty()) {
    auto read = PaceProfile::read(o.pace_profile);
    if (!read) return read.error();
    profile = *std::move(read);
    if (!profile.paces_target() || !profile.paces_drafter()) {
      return Error{Errc::usage, "--pace-profile " + o.pace_profile.string() +
                                    ": needs times of the target and of drafters"};
    }
  }
  const bool paced = !o.pace_profile.empty();
  WorkClock clock(paced              ? WorkClock::Counts::paces
                  : o.processor_time ? WorkClock::Counts::processor
                                     : WorkClock::Counts::wall);
  auto prompts = netsim::read_prompts(o.prompts);
  if (!prompts) return prompts.error();
  shuffle_prompts(*prompts);
  const auto backend = make_cpu_backend({.threads = o.processor_time ? 1 : o.threads});
  auto host = ModelHost::load(*backend, {.model = o.model, .bundles = {o.bundle}});
  if (!host) return host.error();
  const auto opened = open_arms({.model = o.model, .bundles = {o.bundle}}, **host);
  if (!opened) return opened.error();
  const DrafterArm& drafter = opened->front();
  if (auto good = check_pace(profile, drafter.file.drafter_facts()); !good) return good.error();
  const auto encoded = encode_prompts(drafter.file, *prompts);
  if (!encoded) return encoded.error();

  const std::string pace_name = drafter.file.drafter_facts().pace_name;
  std::vector<Line> lines;
  Progress progress("loads", o.clients.size() * o.arms.size());
  for (const std::uint32_t clients : o.clients) {
    if (clients < 1 || clients > 4096) {
      return Error{Errc::usage, "--clients: give numbers from 1 to 4096"};
    }
    for (const std::string& arm : o.arms) {
      const bool drafts = arm == "tree" || arm == "split";
      std::unique_ptr<Speculation> speculation;
      if (arm == "server") {
        if (auto listed = profile.check_paces(pace_name, PaceProfile::Place::beside_target);
            !listed) {
          return listed.error();
        }
        const std::uint32_t context_count = (*host)->context_count();
        speculation = std::make_unique<Speculation>(
            drafter_source(*backend, *(*host)->drafters()[0].model, drafter.tap, context_count),
            SpeculationOptions{
                .tree = *shape,
                .context_count = context_count,
                .decorate =
                    [&clock,
                     step = profile.draft_step(pace_name, PaceProfile::Place::beside_target)](
                        std::unique_ptr<SessionProposer> proposer) {
                      return std::make_unique<lab::PacedProposer>(
                          std::move(proposer), step,
                          lab::PaceClock{
                              .now = [&clock] { return clock.now(); },
                              .wait_until = [&clock](Instant end) { clock.skip_to(end); }});
                    },
                .now = [&clock] { return clock.now(); }});
      }
      auto result =
          simulate_serving({.host = **host,
                            .drafter = drafts ? &drafter : nullptr,
                            .device_backend = *backend,
                            .tree = *shape,
                            .clock = clock,
                            .measures_costs = !o.cold,
                            .pace = paced ? &profile : nullptr,
                            .speculation = speculation.get(),
                            .clients = clients,
                            .round_trip = from_seconds(o.rtt_ms / 1e3),
                            .hold = arm == "tree" ? std::optional(Hold::lockstep) : std::nullopt,
                            .warm_up = from_seconds(o.seconds / 3),
                            .measured = from_seconds(o.seconds),
                            .tokens_max = o.max_tokens,
                            .prompts = *encoded});
      if (!result) return result.error();
      lines.push_back({.arm = arm, .clients = clients, .result = std::move(*result)});
      progress.advance(1);
    }
  }
  if (!o.json) {
    if (paced) {
      std::printf("simulated times of %s: %s\n", profile.name().c_str(),
                  profile.description().c_str());
    }
    print(lines);
    return 0;
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Line& line : lines) all.push_back(to_json(line));
  std::printf("%s\n", all.dump(2).c_str());
  return 0;
}

}  // namespace

void add_server(Program& program) {
  static ServerBenchOptions options;
  program.command("server", "Throughput of one server for many devices", options, declare_server,
                  run_server);
}

}  // namespace edgedraft::bench
