#include "tests/bench/plan_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/engine/bundle_file.h"
#include "netsim/run/prompt_file.h"
#include "server/program/model_host.h"
#include "shared/base/clock.h"
#include "shared/base/progress.h"
#include "shared/forecast/chain_plan.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"
#include "tests/bench/bench_device.h"
#include "tests/support/drafted_answer.h"

namespace edgedraft::bench {
namespace {

constexpr const char* kPlanHelp =
    R"(What drafting a chain of gamma tokens is worth, if each is accepted with probability alpha: tokens a cycle,
speed-up, operations by those without drafts. A drafting step takes c times a pass of the target and c-hat
times its operations; by default both are 0 and the rows are those that were published with the formulas.

With --model, --prompts and a drafter (--bundle or --kind) alpha and c are measured: greedy answers with chains
of each length, of which alpha is what makes the formula give their tokens a cycle; c from the times of drafting
steps and of passes of one row, on the CPU. If acceptances were alike and independent, alpha would be the same
in every row. "planned" is the speed-up by the first row's alpha, "speed-up" by the measured tokens.

Example:
  edgedraft-bench plan
  edgedraft-bench plan --rows 0.75:4,0.75:8 --c 0.05
  edgedraft-bench plan --model models/demo/target.gguf --bundle models/demo/independent.gguf \
    --prompts models/demo/heldout.jsonl)";

constexpr std::uint32_t kGammaMax = 16;

using Json = nlohmann::ordered_json;

Result<ChainPlan> parse_row(const std::string& text) {
  const Error bad{Errc::usage,
                  "--rows " + text + ": give ALPHA:GAMMA, as in 0.8:5, alpha from 0 to 1"};
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return bad;
  ChainPlan plan{};
  if (!CLI::detail::lexical_cast(text.substr(0, colon), plan.alpha) ||
      !CLI::detail::lexical_cast(text.substr(colon + 1), plan.gamma) || plan.alpha < 0.0 ||
      plan.alpha > 1.0 || plan.gamma > kTreeNodesMax) {
    return bad;
  }
  return plan;
}

Result<int> print_formulas(const PlanOptions& o) {
  std::vector<ChainPlan> plans;
  for (const std::string& row : o.rows) {
    auto plan = parse_row(row);
    if (!plan) return plan.error();
    plans.push_back(*plan);
  }
  if (plans.empty()) {
    plans = {{.alpha = 0.6, .gamma = 2}, {.alpha = 0.7, .gamma = 3}, {.alpha = 0.8, .gamma = 2},
             {.alpha = 0.8, .gamma = 5}, {.alpha = 0.9, .gamma = 2}, {.alpha = 0.9, .gamma = 10}};
  }
  Json rows = Json::array();
  if (!o.json) std::printf("alpha  gamma  tokens  operations  speed-up  best gamma\n");
  for (const ChainPlan& plan : plans) {
    const double operations = extra_operations(plan, o.c_hat);
    const double speed = speed_up(plan, o.c);
    // Where drafting costs nothing every token more helps.
    const bool has_best = o.c > 0.0;
    const std::uint32_t best = has_best ? best_gamma(plan.alpha, o.c, kGammaMax) : 0;
    if (o.json) {
      rows.push_back({{"alpha", plan.alpha},
                      {"gamma", plan.gamma},
                      {"tokens", expected_tokens(plan)},
                      {"operations", operations},
                      {"speed_up", speed}});
      if (has_best) rows.back()["best_gamma"] = best;
    } else {
      std::printf("%5.2f  %5u  %6.2f  %9.2fx  %7.2fx  %10s\n", plan.alpha, plan.gamma,
                  expected_tokens(plan), operations, speed,
                  has_best ? std::to_string(best).c_str() : "-");
    }
  }
  if (o.json) std::printf("%s\n", rows.dump(2).c_str());
  return 0;
}

double seconds_of(const std::function<void()>& work) {
  constexpr int kRepetitions = 12;
  work();
  Duration fastest = Duration::max();
  for (int i = 0; i < kRepetitions; ++i) {
    const Instant started = Clock::now();
    work();
    fastest = std::min(fastest, Clock::now() - started);
  }
  return seconds(fastest);
}

// A drafting step's time by a pass's, behind a prompt.
double measure_c(ModelHost& host, Tap* tap, Drafter& drafter,
                 std::span<const std::uint32_t> prompt) {
  Decoder& decoder = host.decoder();
  KvCache cache = decoder.make_cache();
  decoder.append(cache, prompt);
  const auto length = cache.length();
  const std::array<std::uint32_t, 1> root{prompt.back()};
  const std::array<std::uint32_t, 1> position{length};
  const double pass = seconds_of([&] {
    decoder.forward(cache, root,
                    {.positions = position,
                     .prefix = length,
                     .first_slot = length,
                     .masks = decoder.causal_masks().first(1)});
    std::array<std::uint32_t, 1> likeliest{};
    decoder.backend().argmax({.logits = decoder.logits(0, 1), .tokens = likeliest});
  });
  drafter.append(prompt);
  if (tap != nullptr) {
    std::vector<float> rows(length * drafter.activation_cols());
    tap->read(cache, 0, length, rows);
    drafter.add_activations(0, rows);
  }
  // What longer chains take more: the first step takes in the prompt as well.
  constexpr std::uint32_t kShort = 2;
  constexpr std::uint32_t kLong = 10;
  const double brief = seconds_of([&] { drafter.draft(chain_shape(kShort)); });
  const double lengthy = seconds_of([&] { drafter.draft(chain_shape(kLong)); });
  return std::max(0.0, lengthy - brief) / (kLong - kShort) / pass;
}

Result<int> print_measured(const PlanOptions& o) {
  if (o.prompts.empty() || o.bundle.empty() == o.kind.empty()) {
    return Error{Errc::usage, "to measure, give --prompts and either --bundle or --kind"};
  }
  const auto prompts = netsim::read_prompts(o.prompts);
  if (!prompts) return prompts.error();
  const auto backend = make_cpu_backend({.threads = o.threads});
  const auto device = open_drafter_device("cpu", "auto", o.threads);
  if (!device) return device.error();
  std::vector<std::filesystem::path> bundles;
  if (!o.bundle.empty()) bundles.push_back(o.bundle);
  auto host = ModelHost::load(*backend, {.model = o.model, .bundles = bundles});
  if (!host) return host.error();
  const auto file = o.kind.empty() ? BundleFile::open(o.bundle, BundleUse::draft)
                                   : BundleFile::open(o.model, BundleUse::draft, o.kind);
  if (!file) return file.error();
  Tap* const tap = bundles.empty() ? nullptr : (*host)->drafters()[0].tap.get();
  const auto chat = file->chat_template({});
  if (!chat) return chat.error();
  std::map<std::string, std::uint32_t> taken;
  std::vector<std::vector<std::uint32_t>> encoded;
  for (const netsim::Prompt& prompt : *prompts) {
    if (o.prompts_per_task > 0 && taken[prompt.task]++ >= o.prompts_per_task) continue;
    const ChatMessage message{.role = "user", .content = prompt.text};
    const auto tokens = file->encode_chat(*chat, std::span(&message, 1));
    if (!tokens) return tokens.error();
    encoded.push_back(*tokens);
  }
  const auto timed = file->make_drafter(**device);
  const double c = measure_c(**host, tap, *timed, encoded.front());

  Progress progress("answers", encoded.size() * o.gammas.size());
  Json rows = Json::array();
  std::optional<double> first_alpha;
  if (!o.json) {
    std::printf("c %.3f\ngamma  tokens  alpha  speed-up  planned\n", c);
  }
  for (const std::uint32_t gamma : o.gammas) {
    double tokens = 0.0;
    double cycles = 0.0;
    for (const auto& prompt : encoded) {
      const auto drafter = file->make_drafter(**device);
      const auto answer = testing::drafted_answer(**host, {.prompt = prompt,
                                                           .tap = tap,
                                                           .drafter = drafter.get(),
                                                           .tree = chain_shape(gamma),
                                                           .tokens_max = o.max_tokens});
      if (!answer) return answer.error();
      tokens += answer->stats.cycle_tokens;
      cycles += answer->stats.cycles;
      progress.advance(1);
    }
    const double tau = cycles > 0.0 ? tokens / cycles : 1.0;
    const double alpha = alpha_of(tau, gamma);
    if (!first_alpha) first_alpha = alpha;
    const double speed = tau / (gamma * c + 1.0);
    const double planned = speed_up({.alpha = *first_alpha, .gamma = gamma}, c);
    if (o.json) {
      rows.push_back({{"gamma", gamma},
                      {"tokens", tau},
                      {"alpha", alpha},
                      {"c", c},
                      {"speed_up", speed},
                      {"planned", planned}});
    } else {
      std::printf("%5u  %6.2f  %5.3f  %7.2fx  %6.2fx\n", gamma, tau, alpha, speed, planned);
    }
  }
  if (o.json) std::printf("%s\n", rows.dump(2).c_str());
  return 0;
}

}  // namespace

void declare_plan(CLI::App& app, PlanOptions& o) {
  app.footer(kPlanHelp);
  app.add_option("--rows", o.rows, "Acceptance rates and lengths of chains to plan for")
      ->type_name("ALPHA:GAMMA,...")
      ->delimiter(',');
  app.add_option("--c", o.c, "Time of a drafting step, in passes of the target")
      ->check(in_range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--c-hat", o.c_hat,
                 "Operations of a drafting step, in those of a token of the target")
      ->check(in_range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--model", o.model, "The target")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundle, "The drafter")->type_name("FILE.gguf");
  app.add_option("--kind", o.kind, "A drafter that needs no bundle, instead of --bundle")
      ->type_name("KIND");
  app.add_option("--prompts", o.prompts, "Prompts: JSON lines with task and prompt")
      ->type_name("FILE");
  app.add_option("--prompts-per-task", o.prompts_per_task,
                 "Take only the first so many prompts of each task; 0: all")
      ->capture_default_str();
  app.add_option("--gammas", o.gammas, "Lengths of chains to measure")
      ->delimiter(',')
      ->check(CLI::Range(1u, kTreeDepthMax))
      ->capture_default_str();
  app.add_option("--max-tokens", o.max_tokens,
                 "Longest answer; its first token is the prompt's, and no cycle's")
      ->check(in_range(2u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "Threads of the CPU; 0: one per fast core")
      ->capture_default_str();
  app.add_flag("--json", o.json, "JSON instead of a table");
}

Result<int> run_plan(const PlanOptions& o) {
  return o.model.empty() ? print_formulas(o) : print_measured(o);
}

}  // namespace edgedraft::bench
