#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "netsim/pace_profile.h"
#include "netsim/profile.h"
#include "netsim/report/statistics.h"
#include "netsim/run/prompt_file.h"
#include "shared/base/error.h"
#include "shared/base/progress.h"
#include "shared/program/program.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"
#include "tests/bench/commands.h"
#include "tests/bench/drafter_arms.h"
#include "tests/bench/fingerprint.h"
#include "tests/bench/serving.h"

namespace edgedraft::bench {
namespace {

struct FingerprintOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::filesystem::path prompts;
  std::filesystem::path pace_profile;
  std::string link = "paper-5g";
  std::uint32_t prompt_count = 50;
  std::uint32_t known = 12;
  std::uint32_t guessed = 4;
  std::uint32_t tokens = 96;
  double temperature = 0.3;
};

constexpr const char* kFingerprintHelp =
    R"(Can an observer of the network tell prompts apart, by sizes, gaps and counts alone, with and without --pad?
Every prompt is answered many times, sampled with a seed each and over a link that draws its delays anew, in
simulated time through the client's and the server's own code. A classifier learns from the first --known answers
to each prompt and guesses the prompts of the rest; in brackets after the share that it guesses right, where there
are five prompts or more, the 95 % interval over prompts. Then what padding costs: bytes and time of the same answers.

  plain       a run without hints
  sequential  drafts that wait for their verdicts
  overlap     a server that never waits

Example:
  edgedraft-bench fingerprint --model models/demo/target.gguf --bundle models/demo/moa-tli0.gguf \
    --prompts models/demo/heldout.jsonl --pace-profile netsim/devices/paper-llama3-8b.toml)";

// Longer than a padded connection keeps sending after an answer.
constexpr Duration kPause = std::chrono::seconds(2);

struct ObservedArm {
  const char* name;
  bool drafts;
  Hold hold;
};
constexpr ObservedArm kArms[]{{"plain", false, Hold::none},
                              {"sequential", true, Hold::lockstep},
                              {"overlap", true, Hold::none}};

// An arm's result and its cost.
struct Figures {
  netsim::Estimate right;     // share of prompts guessed
  double kilobytes_up = 0.0;  // per answer
  double kilobytes_down = 0.0;
  double seconds = 0.0;
};

Figures figures_of(const std::vector<std::vector<Trace>>& repetitions, std::size_t known_count) {
  std::vector<Trace> known;
  std::vector<Trace> guessed;
  Figures f;
  double answers = 0.0;
  for (std::size_t r = 0; r < repetitions.size(); ++r) {
    auto& part = r < known_count ? known : guessed;
    part.insert(part.end(), repetitions[r].begin(), repetitions[r].end());
    for (const Trace& trace : repetitions[r]) {
      answers += 1.0;
      f.seconds += trace.seconds;
      for (const Packet& packet : trace.packets) {
        (packet.up ? f.kilobytes_up : f.kilobytes_down) += packet.bytes / 1000.0;
      }
    }
  }
  f.seconds /= answers;
  f.kilobytes_up /= answers;
  f.kilobytes_down /= answers;
  f.right = right_share(Fingerprinter(known), guessed);
  return f;
}

std::string percent_text(const netsim::Estimate& share) {
  char text[64];
  if (share.known) {
    std::snprintf(text, sizeof text, "%.1f [%.1f, %.1f] %%", 100.0 * share.value, 100.0 * share.low,
                  100.0 * share.high);
  } else {
    std::snprintf(text, sizeof text, "%.1f %% [too few prompts]", 100.0 * share.value);
  }
  return text;
}

void declare_fingerprint(CLI::App& app, FingerprintOptions& o) {
  app.footer(kFingerprintHelp);
  app.add_option("--model", o.model, "The target")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundle, "The drafter")->type_name("FILE.gguf");
  app.add_option("--prompts", o.prompts, "Prompts: JSON lines with task and prompt")
      ->type_name("FILE");
  app.add_option("--pace-profile", o.pace_profile,
                 "Device profile with the times of named hardware")
      ->type_name("FILE.toml");
  app.add_option("--link", o.link, "The network: the name or file of a profile")
      ->capture_default_str();
  app.add_option("--prompt-count", o.prompt_count, "Prompts to tell apart, spread over the file")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  app.add_option("--known", o.known, "Answers to each prompt that the observer learns from")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  app.add_option("--guessed", o.guessed,
                 "Further answers to each prompt, by which it guesses the prompt")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "Longest answer, in tokens")
      ->check(in_range(1u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--temperature", o.temperature, "Temperature of the target's sampler")
      ->check(in_range(0.0, 100.0))
      ->capture_default_str();
}

Result<int> run_fingerprint(const FingerprintOptions& o) {
  if (o.model.empty() || o.bundle.empty() || o.prompts.empty() || o.pace_profile.empty()) {
    return Error{Errc::usage,
                 "give --model FILE.gguf, --bundle FILE.gguf, --prompts FILE and --pace-profile "
                 "FILE.toml"};
  }
  const auto pace = PaceProfile::read(o.pace_profile);
  if (!pace) return pace.error();
  const auto link = netsim::read_network_profile(o.link);
  if (!link) return link.error();
  const auto backend = make_cpu_backend({.threads = 1});
  const auto host = ModelHost::load(*backend, {.model = o.model, .bundles = {o.bundle}});
  if (!host) return host.error();
  const auto opened = open_arms({.model = o.model, .bundles = {o.bundle}}, **host);
  if (!opened) return opened.error();
  const DrafterArm& drafter = opened->front();
  if (auto good = check_pace(*pace, drafter.file.drafter_facts()); !good) return good.error();
  const auto all = netsim::read_prompts(o.prompts);
  if (!all) return all.error();
  if (all->size() < o.prompt_count) {
    return Error{Errc::usage, "--prompts has " + std::to_string(all->size()) + ", --prompt-count " +
                                  std::to_string(o.prompt_count)};
  }
  std::vector<netsim::Prompt> chosen;
  for (std::size_t i = 0; i < o.prompt_count; ++i) {
    chosen.push_back((*all)[i * all->size() / o.prompt_count]);
  }
  const auto prompts = encode_prompts(drafter.file, chosen);
  if (!prompts) return prompts.error();
  const std::uint32_t repetitions = o.known + o.guessed;
  std::printf("%u prompts over %s, at the pace of %s, temperature %.1f; chance: %.1f %%\n",
              o.prompt_count, link->name.c_str(), pace->name().c_str(), o.temperature,
              100.0 / o.prompt_count);
  std::printf("%-11s %-4s %26s %10s %10s %10s\n", "", "", "prompts guessed", "kB up", "kB down",
              "s/answer");
  for (const ObservedArm& arm : kArms) {
    for (const std::uint16_t tick : {std::uint16_t{0}, kPadTickMsUsual}) {
      std::vector<std::vector<Trace>> seen;
      Progress progress(arm.name, repetitions);
      for (std::uint32_t r = 0; r < repetitions; ++r) {
        progress.advance(1);
        WorkClock clock(WorkClock::Counts::paces);
        auto result = simulate_serving(
            {.host = **host,
             .drafter = arm.drafts ? &drafter : nullptr,
             .device_backend = *backend,
             .tree = TreeShape{},
             .clock = clock,
             .pass_pace = [&](std::uint32_t rows) { return pace->target_pass(rows); },
             .step_pace = pace->draft_step(drafter.file.drafter_facts().pace_name,
                                           PaceProfile::Place::device),
             .clients = 1,
             .round_trip = {},
             .up = &link->up,
             .down = &link->down,
             .seed = r + 1,
             .hold = arm.hold,
             .sampling = {.temperature = static_cast<float>(o.temperature), .seed = r + 1},
             .pad_tick_ms = tick,
             .pause = kPause,
             .warm_up = {},
             .measured = std::chrono::hours(24),
             // After the connection's first answer, whose trace includes the sign-in.
             .answer_count = o.prompt_count + 1,
             .tokens_max = o.tokens,
             .prompts = *prompts});
        if (!result) return result.error();
        result->traces.erase(result->traces.begin());
        seen.push_back(std::move(result->traces));
      }
      const Figures f = figures_of(seen, o.known);
      std::printf("%-11s %-4s %26s %10.1f %10.1f %10.2f\n", arm.name, tick > 0 ? "pad" : "",
                  percent_text(f.right).c_str(), f.kilobytes_up, f.kilobytes_down, f.seconds);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace

void add_fingerprint(Program& program) {
  static FingerprintOptions options;
  program.command("fingerprint", "Can an observer of the network tell prompts apart?", options,
                  declare_fingerprint, run_fingerprint);
}

}  // namespace edgedraft::bench
