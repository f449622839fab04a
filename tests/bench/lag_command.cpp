#include "tests/bench/lag_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netsim/report/statistics.h"
#include "server/program/model_host.h"
#include "shared/base/progress.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"
#include "tests/bench/answer_walk.h"
#include "tests/bench/bootstrap.h"

namespace edgedraft::bench {
namespace {

constexpr const char* kLagHelp =
    R"(How often drafts are right, by what a drafter that runs ahead of its server has to go by:
  lag     tokens that follow the newest activations when a draft is made; a cycle that waits for its
          verdict has a lag of 0. The tokens themselves are known. Only drafters that are sent
          activations have one. Roots that far behind the prompt count; "at lag 0" is the same roots'
          likeliest proposal without the lag; - stands where no answer is as long.
  rank    whether the target's token is the likeliest proposal, or among the 2, 4, 8 likeliest
  depth   levels below the root, at a lag of 0: how often the tree holds the target's token there if
          it holds all tokens before. With --against ARM also how much more often than that arm's,
          answer by answer, with a 95 % interval if there are five answers or more: one above 0 shows
          it. --tree 1,5,5 makes chains
  score   probability that the drafter gave a node of the tree; how many were on the target's path
Each prompt's answer is the target's own, by plain decoding; every one of its tokens is a root once.
Activations go through the link's int8 codec. All of it runs on the CPU.

Example:
  edgedraft-bench lag --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --bundle models/demo/moa-tli0.gguf --bundle models/demo/independent.gguf --kinds ngram)";

// A drafter and what was counted of it.
struct Counted {
  DrafterArm arm;
  LagCounts counts;
  // By depth, a number per answer: roots whose tokens before were in the tree, and those of them
  // whose token at that depth was, too.
  std::vector<std::vector<double>> roots{};
  std::vector<std::vector<double>> hits{};
};

// Notes what the latest answer added to counts.by_depth, which before it was `before`.
void note_depths(const std::vector<Share>& before, std::size_t answer, Counted& counted) {
  const std::vector<Share>& now = counted.counts.by_depth;
  counted.roots.resize(now.size());
  counted.hits.resize(now.size());
  for (std::size_t d = 0; d < now.size(); ++d) {
    const Share earlier = d < before.size() ? before[d] : Share{};
    counted.roots[d].resize(answer);
    counted.hits[d].resize(answer);
    counted.roots[d].push_back(static_cast<double>(now[d].count - earlier.count));
    counted.hits[d].push_back(static_cast<double>(now[d].hits - earlier.hits));
  }
}

// By depth; none at one that only one of the two has been at, or neither.
std::vector<std::optional<netsim::Estimate>> depth_differences(const Counted& of,
                                                               const Counted& against) {
  std::vector<std::optional<netsim::Estimate>> differences;
  for (std::size_t d = 0; d < std::min(of.roots.size(), against.roots.size()); ++d) {
    if (of.counts.by_depth[d].count == 0 || against.counts.by_depth[d].count == 0) {
      differences.emplace_back();
      continue;
    }
    differences.emplace_back(
        bootstrap_difference({of.hits[d], of.roots[d]}, {against.hits[d], against.roots[d]}));
  }
  return differences;
}

template <class Items, class Print>
void print_line(const char* name, const Items& items, Print print_item) {
  std::printf("  %-9s", name);
  for (const auto& item : items) print_item(item);
  std::printf("\n");
}

void print(const Counted& counted, const Counted* against) {
  const auto print_share = [](const std::optional<double>& share) {
    std::printf(" %7s", share_text(share).c_str());
  };
  const auto print_count = [](std::uint64_t count) {
    std::printf(" %7llu", static_cast<unsigned long long>(count));
  };
  const LagCounts& c = counted.counts;
  std::printf("%s\n", counted.arm.name.c_str());
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
  if (against != nullptr && against != &counted) {
    const auto differences = depth_differences(counted, *against);
    const auto print_part = [&](const std::string& name, double netsim::Estimate::*part) {
      print_line(name.c_str(), differences, [&](const std::optional<netsim::Estimate>& e) {
        if (e) {
          std::printf(" %+7.3f", (*e).*part);
        } else {
          std::printf(" %7s", "-");
        }
      });
    };
    print_part("- " + against->arm.name, &netsim::Estimate::value);
    // There are as many answers at every depth.
    if (std::ranges::all_of(differences, [](const auto& e) { return !e || e->known; })) {
      print_part("  from", &netsim::Estimate::low);
      print_part("  to", &netsim::Estimate::high);
    }
  }
  std::uint32_t bin_end = 0;
  print_line("score to", c.by_score, [&](const ScoreBin&) { print_share(++bin_end / 10.0); });
  print_line("nodes", c.by_score, [&](const ScoreBin& bin) { print_count(bin.on_path.count); });
  print_line("expected", c.by_score, [&](const ScoreBin& bin) {
    const auto nodes = static_cast<double>(bin.on_path.count);
    print_share(nodes > 0.0 ? std::optional(bin.expected / nodes) : std::nullopt);
  });
  print_line("on path", c.by_score, [&](const ScoreBin& bin) { print_share(bin.on_path.value()); });
}

nlohmann::ordered_json to_json(const Counted& counted, const Counted* against) {
  nlohmann::ordered_json lags = nlohmann::ordered_json::array();
  for (const auto& [tokens, lag] : counted.counts.by_lag) {
    nlohmann::ordered_json among;
    for (std::size_t i = 0; i < kRanks.size(); ++i) {
      among[std::to_string(kRanks[i])] = share_json(lag.among[i].value());
    }
    lags.push_back({{"lag", tokens},
                    {"roots", lag.without.count},
                    {"among", among},
                    {"likeliest_without", share_json(lag.without.value())}});
  }
  nlohmann::ordered_json depths = nlohmann::ordered_json::array();
  for (const Share& share : counted.counts.by_depth) {
    depths.push_back({{"roots", share.count}, {"in_tree", share_json(share.value())}});
  }
  nlohmann::ordered_json scores = nlohmann::ordered_json::array();
  for (const ScoreBin& bin : counted.counts.by_score) {
    scores.push_back(
        {{"nodes", bin.on_path.count}, {"expected", bin.expected}, {"on_path", bin.on_path.hits}});
  }
  nlohmann::ordered_json json = {
      {"drafter", counted.arm.name}, {"by_lag", lags}, {"by_depth", depths}, {"by_score", scores}};
  if (against == nullptr || against == &counted) return json;
  auto& differences = json["by_depth_minus " + against->arm.name];
  for (const auto& e : depth_differences(counted, *against)) {
    differences.push_back(e ? estimate_json("value", *e) : nlohmann::ordered_json());
  }
  return json;
}

}  // namespace

void declare_lag(CLI::App& app, LagOptions& o) {
  app.footer(kLagHelp);
  declare_arms(app, o.arms);
  app.add_option("--prompts-per-task", o.prompts_per_task,
                 "Take only the first so many prompts of each task; 0: all")
      ->capture_default_str();
  app.add_option("--lags", o.lags, "Lags to measure, in tokens")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--max-tokens", o.max_tokens, "Longest answer, in tokens")
      ->check(in_range(1u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--temperature", o.temperature,
                 "Temperature of the sampler; 0 takes the likeliest token")
      ->check(in_range(0.0f, 100.0f))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of the sampler")->capture_default_str();
  app.add_option("--threads", o.threads, "Threads of the CPU; 0: one per fast core")
      ->capture_default_str();
  app.add_option("--against", o.against, "Arm to compare the others with, see below")
      ->type_name("ARM");
  app.add_flag("--json", o.json, "JSON instead of tables");
}

Result<int> run_lag(const LagOptions& o) {
  if (auto checked = check_arms(o.arms); !checked) return checked.error();
  const auto shape = tree_of(o.arms.tree);
  if (!shape) return shape.error();
  const auto chat = ChatPrompts::read(o.arms, o.prompts_per_task);
  if (!chat) return chat.error();
  const auto backend = make_cpu_backend({.threads = o.threads});
  auto host = ModelHost::load(
      *backend, {.model = o.arms.model, .bundles = o.arms.bundles, .context_count = 0});
  if (!host) return host.error();
  auto arms = open_arms(o.arms, **host);
  if (!arms) return arms.error();
  std::vector<Counted> all;
  for (DrafterArm& arm : *arms) all.push_back({.arm = std::move(arm), .counts = {}});
  const auto found = std::ranges::find(all, o.against, [](const Counted& c) { return c.arm.name; });
  if (!o.against.empty() && found == all.end()) {
    return Error{Errc::usage, "--against " + o.against + ": there is no such drafter"};
  }
  const Counted* const against = found == all.end() ? nullptr : &*found;

  Progress progress("answers", chat->prompts().size());
  std::size_t answer_count = 0;
  for (const netsim::Prompt& prompt : chat->prompts()) {
    const auto tokens = chat->tokens_of(prompt);
    if (!tokens) return tokens.error();
    const auto session = answer_plainly(
        **host, *tokens, {.temperature = o.temperature, .seed = o.seed}, o.max_tokens);
    if (!session) return session.error();
    for (Counted& counted : all) {
      const auto answer =
          walked_answer(*session, static_cast<std::uint32_t>(tokens->size()), counted.arm.tap);
      if (!answer) return answer.error();
      const std::vector<Share> before = counted.counts.by_depth;
      count_lags([&] { return counted.arm.file.make_drafter(*backend); }, *answer, o.lags, *shape,
                 counted.counts);
      note_depths(before, answer_count, counted);
    }
    ++answer_count;
    progress.advance(1);
  }
  if (o.json) {
    nlohmann::ordered_json lines = nlohmann::ordered_json::array();
    for (const Counted& counted : all) lines.push_back(to_json(counted, against));
    std::printf("%s\n", lines.dump(2).c_str());
  } else {
    for (const Counted& counted : all) print(counted, against);
  }
  return 0;
}

}  // namespace edgedraft::bench
