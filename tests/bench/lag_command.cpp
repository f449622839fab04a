#include "tests/bench/lag_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/engine/bundle_file.h"
#include "server/program/model_host.h"
#include "server/sessions/target_session.h"
#include "shared/base/progress.h"
#include "shared/protocol/activation_codec.h"
#include "tests/bench/prompts.h"

namespace edgedraft::bench {
namespace {

using Tokens = std::vector<std::uint32_t>;

constexpr const char* kHelp =
    R"(How often drafts are right, by what a drafter that runs ahead of its server has to go by:
  lag     tokens that follow the newest activations when a draft is made; a cycle that waits for its
          verdict has a lag of 0. The tokens themselves are known. Only drafters that are sent
          activations have one. Roots that far behind the prompt count; "at lag 0" is the same roots'
          likeliest proposal without the lag.
  rank    whether the target's token is the likeliest proposal, or among the 2, 4, 8 likeliest
  depth   levels below the root, at a lag of 0: how often the tree holds the target's token there if
          it holds all tokens before
  score   probability that the drafter gave a node of the tree; how many were on the target's path
Each prompt's answer is the target's own, by plain decoding; every one of its tokens is a root once.
Activations go through the link's int8 codec. All of it runs on the CPU.

Example:
  edgedraft-bench lag --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --bundle models/demo/moa-tli0.gguf --bundle models/demo/independent.gguf --kinds ngram)";

constexpr std::array<std::uint32_t, 4> kRanks{1, 2, 4, 8};
constexpr std::uint32_t kNoRank = ~0u;
constexpr std::uint32_t kScoreBins = 10;  // of equal widths in probability

struct Share {
  std::uint64_t hits = 0;
  std::uint64_t count = 0;

  void add(bool hit) {
    hits += hit ? 1 : 0;
    ++count;
  }
  double value() const {
    return count == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(count);
  }
};

struct ScoreBin {
  Share on_path;
  double expected = 0.0;  // the sum of the nodes' probabilities
};

struct Lag {
  std::array<Share, kRanks.size()> among;
  Share without;  // the same roots at a lag of 0, by the likeliest proposal
};

struct LagCounts {
  std::map<std::uint32_t, Lag> by_lag;
  std::vector<Share> by_depth;
  std::array<ScoreBin, kScoreBins> by_score;
};

// A drafter to measure.
struct Arm {
  std::string name;
  Tap* tap;  // null if it needs tokens alone
  BundleFile file;
  LagCounts counts;
};

// An answer by plain decoding, with the activations that a drafter would be sent of it.
struct Answer {
  Tokens tokens;  // the prompt's first
  std::uint32_t prompt_count;
  std::vector<float> rows;  // of all tokens but the last
};

Result<TargetSession> answer_plainly(ModelHost& host, const Tokens& prompt, const LagOptions& o) {
  TargetSession session(host.decoder(), host.context_count(),
                        [&host](std::uint32_t t) { return host.tokenizer().is_end(t); });
  const auto first = session.prefill({.base_count = 0,
                                      .tokens = prompt,
                                      .sampling = {.temperature = o.temperature, .seed = o.seed}});
  if (!first) return first.error();
  Finish finish = first->finish;
  while (finish == Finish::none && session.tokens().size() < prompt.size() + o.max_tokens) {
    const auto path = session.verify(DraftTree());
    if (!path) return path.error();
    finish = path->finish;
  }
  return session;
}

Result<std::vector<float>> rows_of(Tap* tap, const TargetSession& session) {
  if (tap == nullptr) return std::vector<float>();
  const auto groups = tap->scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  const std::uint32_t count = session.valid_count();
  std::vector<float> rows(std::size_t{count} * layout.cols());
  tap->read(session.cache(), 0, count, rows);
  return dequantize_rows(layout, count, quantize_rows(layout, rows));
}

// The rows of a tree that hold what follows the root in the answer, down to the first that is not
// there.
std::vector<std::uint32_t> path_in(const DraftTree& tree, std::span<const std::uint32_t> follows) {
  std::vector<std::uint32_t> path;
  std::uint32_t row = 0;
  for (const std::uint32_t token : follows) {
    row = tree.child(row, token);
    if (row == 0) break;
    path.push_back(row);
  }
  return path;
}

// The place of `right` among the root's children, the likeliest first; kNoRank if it is none.
std::uint32_t rank_in(const DraftTree& tree, std::uint32_t right) {
  std::vector<std::uint32_t> children;
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    if (tree.parent(row) == 0) children.push_back(row);
  }
  std::ranges::stable_sort(children, std::greater<>(),
                           [&](std::uint32_t row) { return tree.score(row); });
  const auto found =
      std::ranges::find(children, right, [&](std::uint32_t row) { return tree.token(row); });
  return found == children.end() ? kNoRank : static_cast<std::uint32_t>(found - children.begin());
}

void count_tree(const DraftTree& tree, std::span<const std::uint32_t> follows,
                std::uint32_t depth_max, LagCounts& counts) {
  const std::vector<std::uint32_t> path = path_in(tree, follows);
  counts.by_depth.resize(depth_max);
  for (std::size_t depth = 0; depth < std::min<std::size_t>(path.size() + 1, depth_max); ++depth) {
    if (depth < follows.size()) counts.by_depth[depth].add(depth < path.size());
  }
  const auto depths = tree.depths();
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    if (depths[row] > follows.size()) continue;  // the answer ends before
    const double probability = std::exp(static_cast<double>(tree.score(row)));
    const auto bin = std::min(static_cast<std::uint32_t>(probability * kScoreBins), kScoreBins - 1);
    counts.by_score[bin].expected += probability;
    counts.by_score[bin].on_path.add(std::ranges::find(path, row) != path.end());
  }
}

// Walks along the answer with activations that are `lag` tokens old. Returns the rank of the right
// proposal for each root that has such a lag.
std::vector<std::uint32_t> walk(Drafter& drafter, const Answer& answer, std::uint32_t lag,
                                const TreeShape& shape, LagCounts& counts) {
  std::vector<std::uint32_t> ranks;
  const std::size_t cols = drafter.activation_cols();
  std::uint32_t rows_end = 0;
  for (std::uint32_t root = answer.prompt_count; root + 1 < answer.tokens.size(); ++root) {
    const std::uint32_t known = drafter.token_count();
    drafter.append(std::span(answer.tokens).subspan(known, root + 1 - known));
    const std::uint32_t in_answer = root - answer.prompt_count;
    const std::uint32_t end = root - std::min(lag, in_answer);
    if (cols > 0 && end > rows_end) {
      drafter.add_activations(
          rows_end, std::span(answer.rows).subspan(rows_end * cols, (end - rows_end) * cols));
      rows_end = end;
    }
    if (in_answer < lag) continue;
    const auto follows = std::span<const std::uint32_t>(answer.tokens).subspan(root + 1);
    if (lag > 0) {
      // One level tells the ranks.
      const DraftTree level = drafter.draft(
          {.breadth = shape.breadth, .depth = 1, .nodes = std::min(shape.breadth, shape.nodes)});
      ranks.push_back(rank_in(level, follows[0]));
    } else {
      const DraftTree tree = drafter.draft(shape);
      ranks.push_back(rank_in(tree, follows[0]));
      count_tree(tree, follows, shape.depth, counts);
    }
  }
  return ranks;
}

void count_lag(std::span<const std::uint32_t> ranks, std::span<const std::uint32_t> without,
               Lag& lag) {
  for (const std::uint32_t rank : ranks) {
    for (std::size_t i = 0; i < kRanks.size(); ++i) lag.among[i].add(rank < kRanks[i]);
  }
  for (const std::uint32_t rank : without.last(ranks.size())) lag.without.add(rank == 0);
}

template <class Items, class Print>
void print_line(const char* name, const Items& items, Print print_item) {
  std::printf("  %-9s", name);
  for (const auto& item : items) print_item(item);
  std::printf("\n");
}

void print(const Arm& arm) {
  const auto print_share = [](double share) { std::printf(" %7.3f", share); };
  const auto print_count = [](std::uint64_t count) {
    std::printf(" %7llu", static_cast<unsigned long long>(count));
  };
  const LagCounts& c = arm.counts;
  std::printf("%s\n", arm.name.c_str());
  print_line("lag", c.by_lag, [&](const auto& lag) { print_count(lag.first); });
  for (std::size_t i = 0; i < kRanks.size(); ++i) {
    const std::string name = kRanks[i] == 1 ? "likeliest" : "among " + std::to_string(kRanks[i]);
    print_line(name.c_str(), c.by_lag,
               [&](const auto& lag) { print_share(lag.second.among[i].value()); });
  }
  print_line("at lag 0", c.by_lag,
             [&](const auto& lag) { print_share(lag.second.without.value()); });
  print_line("roots", c.by_lag, [&](const auto& lag) { print_count(lag.second.without.count); });
  std::size_t depth = 0;
  print_line("depth", c.by_depth, [&](const Share&) { print_count(++depth); });
  print_line("in tree", c.by_depth, [&](const Share& share) { print_share(share.value()); });
  std::uint32_t bin_end = 0;
  print_line("score to", c.by_score, [&](const ScoreBin&) { print_share(++bin_end / 10.0); });
  print_line("nodes", c.by_score, [&](const ScoreBin& bin) { print_count(bin.on_path.count); });
  print_line("expected", c.by_score, [&](const ScoreBin& bin) {
    print_share(bin.on_path.count == 0 ? 0.0
                                       : bin.expected / static_cast<double>(bin.on_path.count));
  });
  print_line("on path", c.by_score, [&](const ScoreBin& bin) { print_share(bin.on_path.value()); });
}

nlohmann::ordered_json to_json(const Arm& arm) {
  nlohmann::ordered_json lags = nlohmann::ordered_json::array();
  for (const auto& [tokens, lag] : arm.counts.by_lag) {
    nlohmann::ordered_json among;
    for (std::size_t i = 0; i < kRanks.size(); ++i) {
      among[std::to_string(kRanks[i])] = lag.among[i].value();
    }
    lags.push_back({{"lag", tokens},
                    {"roots", lag.without.count},
                    {"among", among},
                    {"likeliest_without", lag.without.value()}});
  }
  nlohmann::ordered_json depths = nlohmann::ordered_json::array();
  for (const Share& share : arm.counts.by_depth) {
    depths.push_back({{"roots", share.count}, {"in_tree", share.value()}});
  }
  nlohmann::ordered_json scores = nlohmann::ordered_json::array();
  for (const ScoreBin& bin : arm.counts.by_score) {
    scores.push_back(
        {{"nodes", bin.on_path.count}, {"expected", bin.expected}, {"on_path", bin.on_path.hits}});
  }
  return {{"drafter", arm.name}, {"by_lag", lags}, {"by_depth", depths}, {"by_score", scores}};
}

Result<TreeShape> shape_of(const LagOptions& o) {
  TreeShape shape;
  if (!o.tree.empty()) {
    if (o.tree.size() != 3) {
      return Error{Errc::usage, "--tree takes three numbers, for example 8,6,62"};
    }
    shape = {.breadth = o.tree[0], .depth = o.tree[1], .nodes = o.tree[2]};
  }
  if (!valid(shape)) return Error{Errc::usage, "no such tree: see edgedraft run --help"};
  return shape;
}

// The first so many of each task.
std::vector<Prompt> some_of(std::vector<Prompt> prompts, std::uint32_t per_task) {
  if (per_task == 0) return prompts;
  std::map<std::string, std::uint32_t> seen;
  std::erase_if(prompts, [&](const Prompt& prompt) { return seen[prompt.task]++ >= per_task; });
  return prompts;
}

Result<std::vector<Arm>> open_arms(const LagOptions& o, ModelHost& host) {
  std::vector<Arm> arms;
  const auto open = [&](const std::filesystem::path& path, const std::string& kind, Tap* tap,
                        const std::string& name) -> Result<void> {
    auto file = BundleFile::open(path, BundleUse::draft, kind);
    if (!file) return file.error();
    arms.push_back({.name = name, .tap = tap, .file = std::move(*file), .counts = {}});
    return {};
  };
  for (std::size_t b = 0; b < o.bundles.size(); ++b) {
    const auto opened =
        open(o.bundles[b], "", host.drafters()[b].tap.get(), o.bundles[b].stem().string());
    if (!opened) return opened.error();
  }
  for (const std::string& kind : o.kinds) {
    if (const auto opened = open(o.model, kind, nullptr, kind); !opened) return opened.error();
  }
  if (arms.empty()) return Error{Errc::usage, "give drafters with --bundle or --kinds"};
  return arms;
}

}  // namespace

void declare_lag(CLI::App& app, LagOptions& o) {
  app.footer(kHelp);
  app.add_option("--model", o.model, "The target")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundles, "A drafter (repeatable)")->type_name("FILE.gguf");
  app.add_option("--kinds", o.kinds, "Drafters that need no bundle")
      ->type_name("KIND,...")
      ->delimiter(',');
  app.add_option("--prompts", o.prompts, "JSON lines with task, prompt")->type_name("FILE");
  app.add_option("--prompts-per-task", o.prompts_per_task, "The first so many alone; 0: all")
      ->capture_default_str();
  app.add_option("--lags", o.lags, "Which, in tokens")->delimiter(',')->capture_default_str();
  app.add_option("--tree", o.tree, "Breadth, depth, nodes [8,6,62]")->delimiter(',');
  app.add_option("--max-tokens", o.max_tokens, "Longest answer")->capture_default_str();
  app.add_option("--temperature", o.temperature, "0 takes the likeliest token")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Of the draws")->capture_default_str();
  app.add_option("--threads", o.threads, "0: one per core")->capture_default_str();
  app.add_flag("--json", o.json, "JSON instead of tables");
}

Result<int> run_lag(const LagOptions& o) {
  if (o.model.empty() || o.prompts.empty()) {
    return Error{Errc::usage,
                 "give the target with --model FILE.gguf, prompts with --prompts FILE"};
  }
  const auto shape = shape_of(o);
  if (!shape) return shape.error();
  auto prompts = read_prompts(o.prompts);
  if (!prompts) return prompts.error();
  const std::vector<Prompt> chosen = some_of(*std::move(prompts), o.prompts_per_task);
  const auto backend = make_cpu_backend({.threads = o.threads});
  auto host =
      ModelHost::load(*backend, {.model = o.model, .bundles = o.bundles, .context_count = 0});
  if (!host) return host.error();
  auto arms = open_arms(o, **host);
  if (!arms) return arms.error();
  const auto chat = arms->front().file.chat_template({});
  if (!chat) return chat.error();

  Progress progress("answers", chosen.size());
  for (const Prompt& prompt : chosen) {
    const ChatMessage message{.role = "user", .content = prompt.text};
    const auto tokens = arms->front().file.encode_chat(*chat, std::span(&message, 1));
    if (!tokens) return tokens.error();
    const auto session = answer_plainly(**host, *tokens, o);
    if (!session) return session.error();
    for (Arm& arm : *arms) {
      auto rows = rows_of(arm.tap, *session);
      if (!rows) return rows.error();
      const Answer answer{.tokens = {session->tokens().begin(), session->tokens().end()},
                          .prompt_count = static_cast<std::uint32_t>(tokens->size()),
                          .rows = *std::move(rows)};
      const auto ranks_at = [&](std::uint32_t lag) {
        return walk(*arm.file.make_drafter(*backend), answer, lag, *shape, arm.counts);
      };
      const std::vector<std::uint32_t> without = ranks_at(0);
      count_lag(without, without, arm.counts.by_lag[0]);
      for (const std::uint32_t lag : o.lags) {
        if (lag == 0 || arm.tap == nullptr) continue;
        count_lag(ranks_at(lag), without, arm.counts.by_lag[lag]);
      }
    }
    progress.advance(1);
  }
  if (o.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Arm& arm : *arms) all.push_back(to_json(arm));
    std::printf("%s\n", all.dump(2).c_str());
  } else {
    for (const Arm& arm : *arms) print(arm);
  }
  return 0;
}

}  // namespace edgedraft::bench
