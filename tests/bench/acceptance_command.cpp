#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "netsim/report/statistics.h"
#include "server/program/model_host.h"
#include "server/program/speculator.h"
#include "server/proposers/probing_methods.h"
#include "server/sessions/pass.h"
#include "shared/base/error.h"
#include "shared/base/progress.h"
#include "shared/program/program.h"
#include "shared/program/validators.h"
#include "tests/bench/acceptance_counts.h"
#include "tests/bench/bench_device.h"
#include "tests/bench/commands.h"
#include "tests/bench/drafter_arms.h"
#include "tests/bench/ruled_answer.h"
#include "tests/support/drafted_answer.h"

namespace edgedraft::bench {
using namespace server;
namespace {

struct AcceptanceOptions {
  ArmOptions arms;
  std::vector<std::string> merge;
  std::vector<std::string> methods;
  bool drawn = false;
  std::vector<double> typical;
  std::uint32_t chain = 0;  // 0: a tree
  std::string draft_kv_type = "f32";
  std::string kv_type = "f32";
  std::string against;
  bool json = false;
};

constexpr const char* kAcceptanceHelp =
    R"(Answers held-out prompts with each drafter. Prints per task, and as the unweighted mean of the tasks,
the acceptance length (tokens per target pass in drafting cycles, including the target's own; plain
decoding has 1) and the rows that the target computed per token (plain decoding: 1). Tasks with five
or more prompts have 95 % intervals over prompts; the mean has one if all tasks do.

Every answer is compared with plain decoding, token for token; the exit status is 1 if one differs.
The target runs on the CPU, the drafters on --device. Activations pass through the link's int8 codec,
except with --drawn and --typical.

--merge also measures every bundle with the other drafters' proposals in its trees.
--methods lists server methods that probe the target itself, METHOD or METHOD+KIND. Their probes
count as rows and run in every pass, whatever they cost.
--drawn also measures each drafter by speculative sampling: proposals are sampled from the drafter's
distribution and accepted so that the answer has the target's distribution. Such answers differ from
plain decoding and are not compared.
--typical also measures each drafter by MEDUSA's typical acceptance, which takes drafts above the
probability min(EPS, sqrt(EPS) exp(-entropy)). Such answers do NOT have the target's distribution; the
mean total variation per token is printed with the acceptance length.
--against ARM also prints the differences of acceptance lengths to that arm, prompt by prompt, if both
give plain decoding's answers. An interval above 0 shows a longer acceptance length.
An --index that contains 32 consecutive tokens of a prompt's "reference" answer is rejected.

Example:
  edgedraft-bench acceptance --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --bundle models/demo/moa-tli0.gguf --bundle models/demo/independent.gguf --chain 4
  edgedraft-bench acceptance --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --kinds pld,anpd,ngram --bundle models/demo/moa-tli0.gguf --merge ngram
  edgedraft-bench acceptance --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --methods lookahead,core,lookahead+ngram,core+ngram)";

struct DrafterResult {
  std::string name;
  CountsByTask tasks;
  std::optional<std::uint32_t> differing;  // token, from plain decoding; empty if not compared
  // Sum of the distances between its tokens' distributions and the target's; empty if exact.
  std::optional<double> total_variation;

  double mean_variation() const {
    double count = 0.0;
    for (const auto& [task, counts] : tasks) {
      count = std::accumulate(counts.tokens.begin(), counts.tokens.end(), count);
    }
    return *total_variation / count;
  }
};

// A drafter or a method to measure.
struct Arm {
  std::string name;
  bool is_compared;       // with plain decoding
  bool is_lossy = false;  // its answers do not follow the target's distribution
  std::function<Result<MeasuredAnswer>(std::span<const std::uint32_t> prompt)> answer;
};

// An answer with a proposer that gets as many probes as it can use in every pass.
Result<MeasuredAnswer> proposed_answer(ModelHost& host, const AcceptanceOptions& o,
                                       const TreeShape& shape, const ProposerSource& source,
                                       std::span<const std::uint32_t> prompt) {
  const auto is_end = [&host](std::uint32_t t) { return host.tokenizer().is_end(t); };
  TargetSession target(host.decoder(),
                       host.decoder().make_cache(cache_type_from_name(o.kv_type).value()),
                       host.context_count(), is_end);
  const auto first =
      target.prefill({.base_count = 0, .tokens = prompt, .sampling = o.arms.sampling()});
  if (!first) return first.error();
  const auto proposer = source.make(std::make_shared<std::uint32_t>(0));
  MeasuredAnswer answer{.tokens = {first->next}};
  Finish finish = first->finish;
  while (finish == Finish::none && answer.tokens.size() < o.arms.max_tokens) {
    ProposalLimits limits{.tree = shape, .probe_rows = source.probe_rows};
    // The last token is the target's own.
    limits.tree.limit(o.arms.max_tokens - 1 - static_cast<std::uint32_t>(answer.tokens.size()));
    if (limits.tree.depth == 0) limits.tree.nodes = 0;
    const Proposal proposal = proposer->propose(target, limits);
    if (auto begun = target.begin(proposal.tree, proposal.probes); !begun) return begun.error();
    answer.rows += target.pending_rows();
    PassShare share{.session = &target, .rows_max = kMaskRowsMax};
    run_pass(host.decoder(), std::span(&share, 1));
    const auto& path = std::get<VerifiedPath>(*share.outcome);
    const auto brought = target.tokens().last(path.path.size() + 1);
    answer.tokens.insert(answer.tokens.end(), brought.begin(), brought.end());
    answer.cycle_tokens += static_cast<std::uint32_t>(brought.size());
    ++answer.cycles;
    finish = path.finish;
  }
  return answer;
}

const DrafterResult* find(const std::vector<DrafterResult>& results, const std::string& name) {
  const auto found = std::ranges::find(results, name, &DrafterResult::name);
  return found == results.end() ? nullptr : &*found;
}

// The answers are the same, so each prompt has cycles in both or in neither.
bool is_compared_with(const DrafterResult& r, const DrafterResult* other) {
  return other != nullptr && other != &r && r.differing == 0u && other->differing == 0u;
}

void print_difference(const std::string& task, const netsim::Estimate& e) {
  std::printf("  %-10s %+5.2f  %s\n", task.c_str(), e.value, interval_text(e, true).c_str());
}

void print(const std::vector<DrafterResult>& results, const std::string& against) {
  const DrafterResult* const other = find(results, against);
  for (const DrafterResult& r : results) {
    std::printf("%s\n", r.name.c_str());
    for (const auto& [task, counts] : r.tasks) {
      const netsim::Estimate e = counts.acceptance_length();
      std::printf("  %-10s %5.2f  %s  %6.2f rows per token  %zu prompts\n", task.c_str(), e.value,
                  interval_text(e).c_str(), counts.rows_per_token(), counts.tokens.size());
    }
    const netsim::Estimate e = mean_acceptance_length(r.tasks);
    std::printf("  %-10s %5.2f  %s  %6.2f rows per token  ", "mean", e.value,
                interval_text(e).c_str(), mean_rows_per_token(r.tasks));
    if (r.total_variation) {
      std::printf("lossy: total variation %.3f per token\n", r.mean_variation());
      continue;
    }
    std::printf("answers that differ from plain decoding: %s\n",
                r.differing ? std::to_string(*r.differing).c_str() : "not compared");
    if (!is_compared_with(r, other)) continue;
    std::printf("%s - %s\n", r.name.c_str(), against.c_str());
    for (const auto& [task, counts] : r.tasks) {
      print_difference(task, acceptance_difference(counts, other->tasks.at(task)));
    }
    print_difference("mean", mean_acceptance_difference(r.tasks, other->tasks));
  }
}

void print_json(const std::vector<DrafterResult>& results, const std::string& against) {
  const DrafterResult* const other = find(results, against);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto mean_json = [](const netsim::Estimate& e, double rows, std::size_t count) {
    nlohmann::ordered_json json = estimate_json("tau", e);
    json["rows_per_token"] = rows;
    json["prompts"] = count;
    return json;
  };
  for (const DrafterResult& r : results) {
    nlohmann::ordered_json tasks;
    std::size_t total = 0;
    for (const auto& [task, counts] : r.tasks) {
      tasks[task] =
          mean_json(counts.acceptance_length(), counts.rows_per_token(), counts.tokens.size());
      total += counts.tokens.size();
    }
    all.push_back({{"drafter", r.name},
                   {"tasks", tasks},
                   {"mean", mean_json(mean_acceptance_length(r.tasks), mean_rows_per_token(r.tasks),
                                      total)}});
    if (r.differing) all.back()["differing"] = *r.differing;
    if (r.total_variation) all.back()["total_variation"] = r.mean_variation();
    if (!is_compared_with(r, other)) continue;
    auto& differences = all.back()["minus " + against];
    for (const auto& [task, counts] : r.tasks) {
      differences["tasks"][task] =
          estimate_json("tau", acceptance_difference(counts, other->tasks.at(task)));
    }
    differences["mean"] = estimate_json("tau", mean_acceptance_difference(r.tasks, other->tasks));
  }
  std::printf("%s\n", all.dump(2).c_str());
}

Result<TreeShape> shape_of(const AcceptanceOptions& o) {
  if (o.chain == 0) return tree_of(o.arms.tree);
  if (!o.arms.tree.empty()) {
    return Error{Errc::usage,
                 "--tree and --chain exclude each other; one of them may come from the environment "
                 "or the configuration file"};
  }
  const TreeShape shape = chain_shape(o.chain);
  if (!valid(shape)) {
    return Error{Errc::usage, "--chain: out of range; see --tree in `edgedraft run --help`"};
  }
  return shape;
}

void declare_acceptance(CLI::App& app, AcceptanceOptions& o) {
  app.footer(kAcceptanceHelp);
  declare_arms(app, o.arms);
  app.add_option("--merge", o.merge,
                 "Also measure each bundle merged with these drafters' proposals")
      ->type_name("KIND,...")
      ->delimiter(',');
  app.add_option("--methods", o.methods, "Server methods that probe the target, see below")
      ->type_name("METHOD[+KIND],...")
      ->delimiter(',');
  app.add_flag("--drawn", o.drawn,
               "Also measure each drafter with proposals sampled from its distribution, see below");
  app.add_option("--typical", o.typical,
                 "Also measure each drafter by typical acceptance, see below")
      ->type_name("EPS,...")
      ->delimiter(',')
      ->check(in_range(0.0, 1.0));
  app.add_option("--chain", o.chain, "Draft K tokens in a row instead of a tree");
  app.add_option("--kv-type", o.kv_type, "The target's keys and values: f32, f16, bf16 or int8")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--draft-kv-type", o.draft_kv_type,
                 "The drafters' keys and values on a Vulkan device: f32 or f16")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  app.add_option("--against", o.against, "Arm to compare the others with, see below")
      ->type_name("ARM");
  app.add_flag("--json", o.json, "JSON instead of a table");
}

// Prints each drafter's acceptance length per task. Returns the exit status: 1 if an answer differs
// from plain decoding.
Result<int> run_acceptance(const AcceptanceOptions& o) {
  if (auto checked = check_arms(o.arms, Drafters::optional); !checked) return checked.error();
  const auto shape = shape_of(o);
  if (!shape) return shape.error();
  if ((o.drawn || !o.typical.empty()) && o.arms.sampling().greedy()) {
    return Error{Errc::usage, "--drawn and --typical need a --temperature above 0"};
  }
  const auto chat = read_chat_prompts(o.arms);
  if (!chat) return chat.error();
  const auto backend = make_cpu_backend({.threads = o.arms.threads});
  const auto device = open_drafter_device(o.arms.device, o.arms.features, o.arms.threads,
                                          dtype_from_name(o.draft_kv_type).value());
  if (!device) return device.error();
  auto host = ModelHost::load(*backend, {.model = o.arms.model,
                                         .bundles = o.arms.bundles,
                                         .indexes = o.arms.indexes,
                                         .context_count = 0});
  if (!host) return host.error();
  const DType kv_type = cache_type_from_name(o.kv_type).value();
  const auto answer_of = [&](std::span<const std::uint32_t> prompt, Tap* tap, Drafter* drafter,
                             std::optional<TreeShape> tree) {
    return testing::drafted_answer(**host, {.prompt = prompt,
                                            .tap = tap,
                                            .drafter = drafter,
                                            .tree = tree,
                                            .tokens_max = o.arms.max_tokens,
                                            .sampling = o.arms.sampling(),
                                            .kv_type = kv_type});
  };

  const auto drafters = open_arms(o.arms, **host, o.merge);
  if (!drafters) return drafters.error();
  std::vector<Arm> arms;
  for (const DrafterArm& drafter_arm : *drafters) {
    const DrafterArm* const of = &drafter_arm;
    arms.push_back(
        {.name = of->name,
         .is_compared = true,
         .answer = [&, of](std::span<const std::uint32_t> prompt) -> Result<MeasuredAnswer> {
           const auto drafter = of->file.make_drafter(**device);
           const auto answer = answer_of(prompt, of->tap, drafter.get(), *shape);
           if (!answer) return answer.error();
           return MeasuredAnswer{.tokens = answer->tokens,
                                 .cycles = answer->stats.cycles,
                                 .cycle_tokens = answer->stats.cycle_tokens,
                                 .rows = answer->stats.cycles + answer->stats.drafted};
         }});
    const auto add_ruled = [&](const std::string& rule, std::optional<TypicalThreshold> typical) {
      arms.push_back(
          {.name = of->name + ", " + rule,
           .is_compared = false,
           .is_lossy = typical.has_value(),
           .answer = [&, of,
                      typical](std::span<const std::uint32_t> prompt) -> Result<MeasuredAnswer> {
             if (!typical && !of->is_network) {
               return Error{Errc::usage,
                            "--drawn: " + of->name + " has no distribution to sample from"};
             }
             const auto drafter = of->file.make_drafter(**device);
             return ruled_answer(**host, {.prompt = prompt,
                                          .tap = of->tap,
                                          .drafter = *drafter,
                                          .tree = *shape,
                                          .tokens_max = o.arms.max_tokens,
                                          .sampling = o.arms.sampling(),
                                          .kv_type = kv_type,
                                          .typical = typical});
           }});
    };
    if (o.drawn) add_ruled("drawn", std::nullopt);
    for (const double epsilon : o.typical) {
      char rule[40];
      std::snprintf(rule, sizeof(rule), "typical %g", epsilon);
      add_ruled(rule, TypicalThreshold{.epsilon = epsilon, .delta = std::sqrt(epsilon)});
    }
  }
  for (const std::string& method : o.methods) {
    auto source = probing_source_of(method, **host, *backend);
    if (!source) return source.error();
    if (!*source) {
      return Error{Errc::usage, "--methods " + method + ": unknown method; give one of " +
                                    probing_method_names()};
    }
    arms.push_back(
        {.name = method,
         .is_compared = true,
         .answer = [&, source = **std::move(source)](std::span<const std::uint32_t> prompt) {
           return proposed_answer(**host, o, *shape, source, prompt);
         }});
  }
  if (arms.empty()) {
    return Error{Errc::usage, "give drafters with --bundle or --kinds, or --methods"};
  }

  if (!o.against.empty() && std::ranges::find(arms, o.against, &Arm::name) == arms.end()) {
    std::string names;
    for (const Arm& arm : arms) names += (names.empty() ? "" : ", ") + arm.name;
    return Error{Errc::usage, "--against " + o.against + ": unknown arm; give one of " + names};
  }

  std::vector<DrafterResult> results;
  results.reserve(arms.size());
  for (const Arm& arm : arms) {
    results.push_back({.name = arm.name, .tasks = {}, .differing = {}});
    if (arm.is_compared) results.back().differing = 0;
    if (arm.is_lossy) results.back().total_variation = 0.0;
  }
  Progress progress("answers", chat->prompts.size() * (arms.size() + 1));
  for (std::size_t i = 0; i < chat->prompts.size(); ++i) {
    const std::vector<std::uint32_t>& tokens = chat->tokens[i];
    const auto plain = answer_of(tokens, nullptr, nullptr, std::nullopt);
    if (!plain) return plain.error();
    progress.advance(1);
    for (std::size_t a = 0; a < arms.size(); ++a) {
      const auto answer = arms[a].answer(tokens);
      if (!answer) return answer.error();
      progress.advance(1);
      if (arms[a].is_compared) *results[a].differing += answer->tokens != plain->tokens;
      if (arms[a].is_lossy) *results[a].total_variation += answer->total_variation;
      if (answer->cycles == 0) continue;
      results[a].tasks[chat->prompts[i].task].add(answer->cycle_tokens, answer->cycles,
                                                  answer->rows);
    }
  }
  o.json ? print_json(results, o.against) : print(results, o.against);
  const bool good = std::all_of(results.begin(), results.end(),
                                [](const auto& r) { return r.differing.value_or(0) == 0; });
  return good ? 0 : 1;
}

}  // namespace

void add_acceptance(Program& program) {
  static AcceptanceOptions options;
  program.command("acceptance", "Acceptance length on held-out prompts", options,
                  declare_acceptance, run_acceptance);
}

}  // namespace edgedraft::bench
