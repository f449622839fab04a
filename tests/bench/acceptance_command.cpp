#include "tests/bench/acceptance_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/algorithm/string/split.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <variant>

#include "client/engine/bundle_file.h"
#include "server/program/model_host.h"
#include "server/program/speculator.h"
#include "server/proposers/probing_methods.h"
#include "server/proposers/spectra_core.h"
#include "server/sessions/pass.h"
#include "shared/base/progress.h"
#include "shared/drafting/index/corpus_index.h"
#include "tests/bench/bench_device.h"
#include "tests/bench/drawn_answer.h"
#include "tests/bench/prompts.h"
#include "tests/support/drafted_answer.h"

namespace edgedraft::bench {
namespace {

constexpr const char* kHelp =
    R"(Answers held-out prompts with each drafter and prints the acceptance length (tokens per target pass in
drafting cycles, the target's own included; plain decoding is 1) per task and as the unweighted mean of the
tasks, with 95 % intervals over the prompts, and the rows that the target computed per token (plain decoding:
1). With --merge every bundle is measured with the other drafters' proposals in its trees, too. Activations
go through the link's int8 codec. --methods are a server's that ask the target itself, METHOD or METHOD+KIND;
their probes count as rows and are made in every pass, whatever they cost. Every answer is compared with plain
decoding, token for token; the exit status is 1 where one differs. With --drawn each drafter is measured by the
literature's rule as well (speculative sampling): what it proposes is drawn from its own law and accepted such
that the answer has the target's law, so that answers differ from plain ones and are not compared. The target runs
on the CPU, the drafters on --device. An --index that holds 32 tokens in a row of a prompt's "reference"
answer is refused.

Example:
  edgedraft-bench acceptance --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --bundle models/demo/moa-tli0.gguf --bundle models/demo/independent.gguf --chain 4
  edgedraft-bench acceptance --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --kinds pld,anpd,ngram --bundle models/demo/moa-tli0.gguf --merge ngram
  edgedraft-bench acceptance --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --methods lookahead,core,lookahead+ngram,core+ngram --ablations)";

struct TaskCounts {
  std::vector<double> tokens;  // of cycles, one number per prompt
  std::vector<double> cycles;
  std::vector<double> rows;  // of the cycles' passes: roots and nodes
};

struct DrafterResult {
  std::string name;
  std::map<std::string, TaskCounts> tasks;
  std::uint32_t differing = 0;
};

struct ArmAnswer {
  std::vector<std::uint32_t> tokens;
  // Of cycles: tokens that they brought, how many there were, and rows of their passes.
  double cycle_tokens = 0.0;
  double cycles = 0.0;
  double rows = 0.0;
};

// A drafter or a method to measure.
struct Arm {
  std::string name;
  bool is_compared;  // with plain decoding
  std::function<Result<ArmAnswer>(std::span<const std::uint32_t> prompt)> answer;
};

SamplingParams sampling_of(const AcceptanceOptions& o) {
  return {.temperature = o.temperature, .seed = o.seed, .draw = draw_of(o.draw)};
}

// A proposer at work for an answer, with as many probes as it has use for in every pass.
Result<ArmAnswer> proposed_answer(ModelHost& host, const AcceptanceOptions& o,
                                  const TreeShape& shape, const ProposerSource& source,
                                  std::span<const std::uint32_t> prompt) {
  const auto is_end = [&host](std::uint32_t t) { return host.tokenizer().is_end(t); };
  TargetSession target(host.decoder(),
                       host.decoder().make_cache(dtype_from_name(o.kv_type).value()),
                       host.context_count(), is_end);
  const auto first =
      target.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling_of(o)});
  if (!first) return first.error();
  const auto proposer = source.make(std::make_shared<std::uint32_t>(0));
  ArmAnswer answer{.tokens = {first->next}};
  Finish finish = first->finish;
  while (finish == Finish::none && answer.tokens.size() < o.max_tokens) {
    ProposalLimits limits{.tree = shape, .probe_rows = source.probe_rows};
    // The last token is the target's own.
    limits.tree.depth = std::min<std::uint32_t>(
        shape.depth, o.max_tokens - 1 - static_cast<std::uint32_t>(answer.tokens.size()));
    if (limits.tree.depth == 0) limits.tree.nodes = 0;
    const Proposal proposal = proposer->propose(target, limits);
    if (auto begun = target.begin(proposal.tree, proposal.probes); !begun) return begun.error();
    answer.rows += target.pending_rows();
    PassShare share{.session = &target, .rows_max = kMaskRowsMax};
    run_pass(host.decoder(), std::span(&share, 1));
    const auto& path = std::get<VerifiedPath>(*share.outcome);
    const auto brought = target.tokens().last(path.path.size() + 1);
    answer.tokens.insert(answer.tokens.end(), brought.begin(), brought.end());
    answer.cycle_tokens += static_cast<double>(brought.size());
    answer.cycles += 1;
    finish = path.finish;
  }
  return answer;
}

double rows_per_token(const TaskCounts& counts) {
  return std::accumulate(counts.rows.begin(), counts.rows.end(), 0.0) /
         std::accumulate(counts.tokens.begin(), counts.tokens.end(), 0.0);
}

double mean_rows_per_token(const std::map<std::string, TaskCounts>& tasks) {
  double sum = 0.0;
  for (const auto& [task, counts] : tasks) sum += rows_per_token(counts);
  return sum / static_cast<double>(tasks.size());
}

// How many tokens of an answer stand in a row in an index, at most kIndexOrder.
std::uint32_t longest_run_in(const CorpusIndex& index, std::span<const std::uint32_t> answer) {
  std::uint32_t longest = 0;
  for (std::size_t end = 1; end <= answer.size(); ++end) {
    longest = std::max(longest, index.longest_match(answer.first(end), kIndexOrder).length);
  }
  return longest;
}

// A drafter may not be told what it is asked.
Result<void> check_held_out(const std::vector<std::filesystem::path>& paths,
                            const Tokenizer& tokenizer, const std::vector<Prompt>& prompts) {
  for (const std::filesystem::path& path : paths) {
    const auto index = CorpusIndex::open(path);
    if (!index) return index.error();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto answer = tokenizer.encode(prompts[i].reference, Special::plain);
      if (longest_run_in(*index, answer) < kIndexOrder) continue;
      return Error{Errc::usage, path.string() + ": holds " + std::to_string(kIndexOrder) +
                                    " tokens in a row of the reference answer to prompt " +
                                    std::to_string(i + 1) +
                                    ": leave what is measured on out of the index"};
    }
  }
  return {};
}

// The unweighted mean of the tasks; its interval from resampling within each task.
Mean mean_of_tasks(const std::map<std::string, TaskCounts>& tasks) {
  Mean mean;
  double variance = 0.0;
  for (const auto& [task, counts] : tasks) {
    const Mean m = bootstrap_ratio(counts.tokens, counts.cycles);
    mean.value += m.value;
    const double deviation = (m.high - m.low) / (2 * 1.96);
    variance += deviation * deviation;
  }
  const auto count = static_cast<double>(tasks.size());
  mean.value /= count;
  const double half = 1.96 * std::sqrt(variance) / count;
  mean.low = mean.value - half;
  mean.high = mean.value + half;
  return mean;
}

void print(const std::vector<DrafterResult>& results) {
  for (const DrafterResult& r : results) {
    std::printf("%s\n", r.name.c_str());
    for (const auto& [task, counts] : r.tasks) {
      const Mean m = bootstrap_ratio(counts.tokens, counts.cycles);
      std::printf("  %-10s %5.2f  [%.2f, %.2f]  %6.2f rows per token  %zu prompts\n", task.c_str(),
                  m.value, m.low, m.high, rows_per_token(counts), counts.tokens.size());
    }
    const Mean m = mean_of_tasks(r.tasks);
    std::printf(
        "  %-10s %5.2f  [%.2f, %.2f]  %6.2f rows per token  answers that differ from plain "
        "decoding: %u\n",
        "mean", m.value, m.low, m.high, mean_rows_per_token(r.tasks), r.differing);
  }
}

void print_json(const std::vector<DrafterResult>& results) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto mean_json = [](const Mean& m, double rows, std::size_t count) {
    return nlohmann::ordered_json{{"tau", m.value},
                                  {"low", m.low},
                                  {"high", m.high},
                                  {"rows_per_token", rows},
                                  {"prompts", count}};
  };
  for (const DrafterResult& r : results) {
    nlohmann::ordered_json tasks;
    std::size_t total = 0;
    for (const auto& [task, counts] : r.tasks) {
      tasks[task] = mean_json(bootstrap_ratio(counts.tokens, counts.cycles), rows_per_token(counts),
                              counts.tokens.size());
      total += counts.tokens.size();
    }
    all.push_back({{"drafter", r.name},
                   {"tasks", tasks},
                   {"mean", mean_json(mean_of_tasks(r.tasks), mean_rows_per_token(r.tasks), total)},
                   {"differing", r.differing}});
  }
  std::printf("%s\n", all.dump(2).c_str());
}

Result<TreeShape> shape_of(const AcceptanceOptions& o) {
  if (o.chain > 0 && !o.tree.empty()) {
    return Error{Errc::usage,
                 "--tree and --chain exclude each other; one of them may come from the environment "
                 "or the configuration file"};
  }
  TreeShape shape;
  if (o.chain > 0) {
    shape = chain_shape(o.chain);
  } else if (!o.tree.empty()) {
    if (o.tree.size() != 3) {
      return Error{Errc::usage, "--tree takes three numbers, for example 8,6,62"};
    }
    shape = {.breadth = o.tree[0], .depth = o.tree[1], .nodes = o.tree[2]};
  }
  if (!valid(shape)) return Error{Errc::usage, "no such tree: see edgedraft run --help"};
  return shape;
}

}  // namespace

void declare_acceptance(CLI::App& app, AcceptanceOptions& o) {
  app.footer(kHelp);
  app.add_option("--model", o.model, "The target")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundles, "A drafter (repeatable)")->type_name("FILE.gguf");
  app.add_option("--kinds", o.kinds, "Drafters that need no bundle; a+b: both on one tree")
      ->type_name("KIND,...")
      ->delimiter(',');
  app.add_option("--merge", o.merge,
                 "Drafters whose proposals each bundle's are merged with, in an arm of its own")
      ->type_name("KIND,...")
      ->delimiter(',');
  app.add_option("--index", o.indexes, "For the drafters that look things up (repeatable)")
      ->type_name("FILE");
  app.add_option("--methods", o.methods, "What a server asks its target for guesses by, see above")
      ->type_name("METHOD[+KIND],...")
      ->delimiter(',');
  app.add_flag("--drawn", o.drawn, "Each drafter's proposals drawn from its law, too, see above");
  app.add_flag("--ablations", o.ablations,
               "SPECTRA-CORE without each of its parts and with other thresholds, too");
  app.add_option("--prompts", o.prompts, "JSON lines with task, prompt")->type_name("FILE");
  app.add_option("--tree", o.tree, "Breadth, depth, nodes [8,6,62]")->delimiter(',');
  app.add_option("--chain", o.chain, "Draft K tokens in a row instead");
  app.add_option("--max-tokens", o.max_tokens, "Longest answer")->capture_default_str();
  app.add_option("--temperature", o.temperature, "0 takes the likeliest token")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Of the draws")->capture_default_str();
  app.add_option("--draw", o.draw, "What makes a token of a seed: gumbel or inverse")
      ->check(CLI::IsMember({"gumbel", "inverse"}))
      ->capture_default_str();
  app.add_option("--kv-type", o.kv_type, "The target's keys and values: f32, f16 or bf16")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "0: one per core")->capture_default_str();
  app.add_option("--device", o.device, "Of the drafters: cpu, vulkan or vulkan:N")
      ->capture_default_str();
  app.add_option("--features", o.features, kFeaturesHelp)->capture_default_str();
  app.add_flag("--json", o.json, "JSON instead of a table");
}

Result<int> run_acceptance(const AcceptanceOptions& o) {
  if (o.model.empty() || o.prompts.empty()) {
    return Error{Errc::usage,
                 "give the target with --model FILE.gguf, prompts with --prompts FILE"};
  }
  const auto shape = shape_of(o);
  if (!shape) return shape.error();
  if (o.drawn && sampling_of(o).greedy()) {
    return Error{Errc::usage, "--drawn needs a --temperature above 0"};
  }
  const auto prompts = read_prompts(o.prompts);
  if (!prompts) return prompts.error();
  const auto backend = make_cpu_backend({.threads = o.threads});
  const auto device = open_device(o.device, o.features, o.threads);
  if (!device) return device.error();
  auto host =
      ModelHost::load(*backend, {.model = o.model, .bundles = o.bundles, .context_count = 0});
  if (!host) return host.error();
  const auto answer_of = [&](std::span<const std::uint32_t> prompt, Tap* tap, Drafter* drafter,
                             std::optional<TreeShape> tree) {
    return testing::drafted_answer(**host, {.prompt = prompt,
                                            .tap = tap,
                                            .drafter = drafter,
                                            .tree = tree,
                                            .tokens_max = o.max_tokens,
                                            .sampling = sampling_of(o),
                                            .kv_type = dtype_from_name(o.kv_type).value()});
  };

  const auto target = BundleFile::open(o.model, BundleUse::plain);
  if (!target) return target.error();
  if (auto good = check_held_out(o.indexes, target->tokenizer(), *prompts); !good) {
    return good.error();
  }
  std::vector<BundleFile> files;
  files.reserve(o.kinds.size() + 2 * o.bundles.size());
  std::vector<Arm> arms;
  const auto add_drafter = [&](std::string name, Tap* tap, BundleFile opened) {
    const BundleFile* const file = &files.emplace_back(std::move(opened));
    arms.push_back(
        {.name = name,
         .is_compared = true,
         .answer = [&, file, tap](std::span<const std::uint32_t> prompt) -> Result<ArmAnswer> {
           const auto drafter = file->make_drafter(**device);
           const auto answer = answer_of(prompt, tap, drafter.get(), *shape);
           if (!answer) return answer.error();
           return ArmAnswer{.tokens = answer->tokens,
                            .cycle_tokens = static_cast<double>(answer->stats.cycle_tokens),
                            .cycles = static_cast<double>(answer->stats.cycles),
                            .rows = static_cast<double>(answer->stats.cycles) +
                                    static_cast<double>(answer->stats.drafted)};
         }});
    if (!o.drawn) return;
    arms.push_back(
        {.name = name + ", drawn",
         .is_compared = false,
         .answer = [&, file, tap](std::span<const std::uint32_t> prompt) -> Result<ArmAnswer> {
           const auto drafter = file->make_drafter(**device);
           DrawnAnswer answer =
               drawn_answer(**host, {.prompt = prompt,
                                     .tap = tap,
                                     .drafter = *drafter,
                                     .tree = *shape,
                                     .tokens_max = o.max_tokens,
                                     .sampling = sampling_of(o),
                                     .kv_type = dtype_from_name(o.kv_type).value()});
           return ArmAnswer{.tokens = std::move(answer.tokens),
                            .cycle_tokens = static_cast<double>(answer.cycle_tokens),
                            .cycles = static_cast<double>(answer.cycles),
                            .rows = static_cast<double>(answer.rows)};
         }});
  };
  for (const std::string& kind : o.kinds) {
    std::vector<std::string> names;
    boost::split(names, kind, [](char c) { return c == '+'; });
    auto file = BundleFile::open(o.model, BundleUse::draft, names.front(), o.indexes);
    if (!file) return file.error();
    if (auto merged = file->merge(std::span(names).subspan(1)); !merged) return merged.error();
    add_drafter(kind, nullptr, std::move(*file));
  }
  for (std::size_t b = 0; b < o.bundles.size(); ++b) {
    for (const auto& merge : {std::vector<std::string>{}, o.merge}) {
      auto file = BundleFile::open(o.bundles[b], BundleUse::draft, {}, o.indexes);
      if (!file) return file.error();
      if (auto merged = file->merge(merge); !merged) return merged.error();
      std::string name = o.bundles[b].stem().string();
      for (const std::string& kind : merge) name += " + " + kind;
      add_drafter(std::move(name), (*host)->drafters()[b].tap.get(), std::move(*file));
      if (o.merge.empty()) break;
    }
  }
  const auto add_method = [&](std::string name, ProposerSource source) {
    arms.push_back(
        {.name = std::move(name),
         .is_compared = true,
         .answer = [&, source = std::move(source)](std::span<const std::uint32_t> prompt) {
           return proposed_answer(**host, o, *shape, source, prompt);
         }});
  };
  for (const std::string& method : o.methods) {
    auto source = probing_source_of(method, **host, *backend);
    if (!source) return source.error();
    if (!*source) {
      return Error{Errc::usage, "--methods " + method + ": there is no such method; there are " +
                                    probing_method_names()};
    }
    add_method(method, **std::move(source));
  }
  if (o.ablations) {
    const auto arm = [](const std::string& what, const SpectraCoreOptions& options) {
      return std::pair("core " + what, options);
    };
    for (const auto& [name, options] :
         {arm("without forward", {.forward = false}), arm("without backward", {.backward = false}),
          arm("without sub-n-grams", {.sub_ngrams = false}),
          arm("with threshold 0.1", {.threshold = 0.1}),
          arm("with threshold 0.5", {.threshold = 0.5}),
          arm("with threshold 1", {.threshold = 1.0})}) {
      add_method(name, {.make =
                            [options](std::shared_ptr<std::uint32_t>) {
                              return std::make_unique<ProbingProposer>(
                                  std::make_unique<SpectraCore>(options));
                            },
                        .session_bytes = 0,
                        .probe_rows = SpectraCore(options).rows_max()});
    }
  }
  if (arms.empty()) {
    return Error{Errc::usage, "give drafters with --bundle or --kinds, or --methods"};
  }

  const auto chat = (o.bundles.empty() ? *target : files.back()).chat_template({});
  if (!chat) return chat.error();
  std::vector<DrafterResult> results;
  results.reserve(arms.size());
  for (const Arm& arm : arms) results.push_back({.name = arm.name, .tasks = {}});
  Progress progress("answers", prompts->size() * (arms.size() + 1));
  for (const Prompt& prompt : *prompts) {
    const ChatMessage message{.role = "user", .content = prompt.text};
    const auto tokens = target->encode_chat(*chat, std::span(&message, 1));
    if (!tokens) return tokens.error();
    const auto plain = answer_of(*tokens, nullptr, nullptr, std::nullopt);
    if (!plain) return plain.error();
    progress.advance(1);
    for (std::size_t a = 0; a < arms.size(); ++a) {
      const auto answer = arms[a].answer(*tokens);
      if (!answer) return answer.error();
      progress.advance(1);
      results[a].differing += arms[a].is_compared && answer->tokens != plain->tokens;
      if (answer->cycles == 0) continue;
      TaskCounts& counts = results[a].tasks[prompt.task];
      counts.tokens.push_back(answer->cycle_tokens);
      counts.cycles.push_back(answer->cycles);
      counts.rows.push_back(answer->rows);
    }
  }
  o.json ? print_json(results) : print(results);
  const bool good =
      std::all_of(results.begin(), results.end(), [](const auto& r) { return r.differing == 0; });
  return good ? 0 : 1;
}

}  // namespace edgedraft::bench
