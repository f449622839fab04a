#include "tests/bench/drafter_arms.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/algorithm/string/split.hpp>
#include <map>
#include <span>
#include <utility>

#include "shared/drafting/index/corpus_index.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"
#include "tests/bench/bench_device.h"

namespace edgedraft::bench {
namespace {

// The longest sequence of an answer that an index holds, at most kIndexOrder tokens.
std::uint32_t longest_run_in(const CorpusIndex& index, std::span<const std::uint32_t> answer) {
  std::uint32_t longest = 0;
  for (std::size_t end = 1; end <= answer.size(); ++end) {
    longest = std::max(longest, index.longest_match(answer.first(end), kIndexOrder).length);
  }
  return longest;
}

// A drafter's index must not contain the reference answers.
Result<void> check_held_out(const std::vector<std::filesystem::path>& paths,
                            const Tokenizer& tokenizer,
                            const std::vector<netsim::Prompt>& prompts) {
  for (const std::filesystem::path& path : paths) {
    const auto index = CorpusIndex::open(path);
    if (!index) return index.error();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto answer = tokenizer.encode(prompts[i].reference, Special::plain);
      if (longest_run_in(*index, answer) < kIndexOrder) continue;
      return Error{Errc::usage, path.string() + ": contains " + std::to_string(kIndexOrder) +
                                    " consecutive tokens of the reference answer to prompt " +
                                    std::to_string(i + 1) +
                                    "; build the index without the measured prompts"};
    }
  }
  return {};
}

}  // namespace

void declare_arms(CLI::App& app, ArmOptions& o) {
  app.add_option("--model", o.model, "Target model")->type_name("FILE.gguf");
  app.add_option("--bundle", o.bundles, "Drafter (repeatable)")->type_name("FILE.gguf");
  app.add_option("--kinds", o.kinds, "Drafters without a bundle; a+b: both in one tree")
      ->type_name("KIND,...")
      ->delimiter(',');
  app.add_option("--index", o.indexes, "Index for retrieval drafters (repeatable)")
      ->type_name("FILE");
  app.add_option("--prompts", o.prompts, "Prompts: JSON lines with `task` and `prompt`")
      ->type_name("FILE");
  app.add_flag("--raw", o.raw, "Prompts without the chat template");
  app.add_option("--tree", o.tree, "Tree shape: breadth, depth, nodes [8,6,62]")->delimiter(',');
  app.add_option("--max-tokens", o.max_tokens,
                 "Maximum tokens of an answer; the first one comes with the prompt, not in a cycle")
      ->check(in_range(2u, kContextCountMax))
      ->capture_default_str();
  app.add_option("--temperature", o.temperature, "Temperature of the sampler; 0: greedy")
      ->check(in_range(0.0f, 100.0f))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of the sampler")->capture_default_str();
  app.add_option("--threads", o.threads, "CPU threads; 0: one per fast core")
      ->capture_default_str();
  app.add_option("--device", o.device, "Device of the drafters: cpu, vulkan or vulkan:N")
      ->capture_default_str();
  app.add_option("--features", o.features, kFeaturesHelp)->capture_default_str();
}

Result<void> check_arms(const ArmOptions& o, Drafters drafters) {
  if (o.model.empty() || o.prompts.empty()) {
    return Error{Errc::usage,
                 "give the target with --model FILE.gguf and prompts with --prompts FILE"};
  }
  if (drafters == Drafters::required && o.bundles.empty() && o.kinds.empty()) {
    return Error{Errc::usage, "give drafters with --bundle or --kinds"};
  }
  return {};
}

Result<TreeShape> tree_of(const std::vector<std::uint32_t>& numbers) {
  TreeShape shape;
  if (!numbers.empty()) {
    if (numbers.size() != 3) {
      return Error{Errc::usage, "--tree: expected breadth,depth,nodes, such as 8,6,62"};
    }
    shape = {.breadth = numbers[0], .depth = numbers[1], .nodes = numbers[2]};
  }
  if (!valid(shape)) return Error{Errc::usage, "--tree: out of range; see `edgedraft run --help`"};
  return shape;
}

Result<void> check_pace(const PaceProfile& pace, const DrafterFacts& facts, Payloads payloads) {
  // Drafters without weights take almost no time on any hardware.
  if (facts.step_bytes > 0) {
    auto listed = pace.check_paces(facts.pace_name, PaceProfile::Place::device);
    if (!listed) return listed;
  }
  if (facts.tap.empty() || payloads == Payloads::own) return {};
  return pace.check_pads(facts.pace_name);
}

Result<std::vector<DrafterArm>> open_arms(const ArmOptions& o, ModelHost& host,
                                          const std::vector<std::string>& merge) {
  std::vector<DrafterArm> arms;
  for (std::size_t b = 0; b < o.bundles.size(); ++b) {
    for (const auto& merged : {std::vector<std::string>{}, merge}) {
      auto file = BundleFile::open(o.bundles[b], BundleUse::draft, {}, o.indexes);
      if (!file) return file.error();
      if (auto done = file->merge(merged); !done) return done.error();
      std::string name = o.bundles[b].stem().string();
      for (const std::string& kind : merged) name += " + " + kind;
      arms.push_back({.name = std::move(name),
                      .tap = host.drafters()[b].tap.get(),
                      .file = std::move(*file),
                      .is_network = merged.empty()});
      if (merge.empty()) break;
    }
  }
  for (const std::string& kind : o.kinds) {
    std::vector<std::string> names;
    boost::split(names, kind, [](char c) { return c == '+'; });
    auto file = BundleFile::open(o.model, BundleUse::draft, names.front(), o.indexes);
    if (!file) return file.error();
    if (auto merged = file->merge(std::span(names).subspan(1)); !merged) return merged.error();
    arms.push_back({.name = kind, .tap = nullptr, .file = std::move(*file), .is_network = false});
  }
  return arms;
}

Result<TokenLists> encode_prompts(const BundleFile& bundle,
                                  std::span<const netsim::Prompt> prompts) {
  const auto chat = bundle.chat_template({});
  if (!chat) return chat.error();
  TokenLists all;
  for (const netsim::Prompt& prompt : prompts) {
    const ChatMessage message{.role = "user", .content = prompt.text};
    auto tokens = bundle.encode_chat(*chat, std::span(&message, 1));
    if (!tokens) return tokens.error();
    all.push_back(*std::move(tokens));
  }
  return all;
}

Result<ChatPrompts> read_chat_prompts(const ArmOptions& o, std::uint32_t per_task) {
  auto prompts = netsim::read_prompts(o.prompts);
  if (!prompts) return prompts.error();
  if (per_task > 0) {
    std::map<std::string, std::uint32_t> seen;
    std::erase_if(*prompts,
                  [&](const netsim::Prompt& prompt) { return seen[prompt.task]++ >= per_task; });
  }
  // Vocabulary-only files have no template; a bundle has its target's.
  const auto target = BundleFile::open(o.bundles.empty() ? o.model : o.bundles.front(),
                                       o.bundles.empty() ? BundleUse::plain : BundleUse::draft);
  if (!target) return target.error();
  if (auto good = check_held_out(o.indexes, target->tokenizer(), *prompts); !good) {
    return good.error();
  }
  if (o.raw) {
    TokenLists tokens;
    for (const netsim::Prompt& prompt : *prompts) {
      tokens.push_back(target->tokenizer().encode(prompt.text, Special::plain));
    }
    return ChatPrompts{.prompts = *std::move(prompts), .tokens = std::move(tokens)};
  }
  auto tokens = encode_prompts(*target, *prompts);
  if (!tokens) return tokens.error();
  return ChatPrompts{.prompts = *std::move(prompts), .tokens = *std::move(tokens)};
}

Result<std::vector<netsim::NetworkProfile>> read_links(const std::vector<std::string>& names) {
  std::vector<netsim::NetworkProfile> links;
  for (const std::string& name : names) {
    auto link = netsim::read_network_profile(name);
    if (!link) return link.error();
    links.push_back(*std::move(link));
  }
  return links;
}

}  // namespace edgedraft::bench
