#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/engine/bundle_file.h"
#include "server/program/model_host.h"
#include "shared/base/error.h"
#include "shared/drafting/tap.h"
#include "shared/speculative/tree_growth.h"
#include "tests/bench/prompts.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

// Which drafters of which target are measured, on which prompts.
struct ArmOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> bundles;
  std::vector<std::string> kinds;  // "a+b": both on one tree
  std::vector<std::filesystem::path> indexes;
  std::filesystem::path prompts;
  std::vector<std::uint32_t> tree;  // breadth, depth, nodes; empty: 8,6,62
};
void declare_arms(CLI::App& app, ArmOptions& options);
// Errors    usage: the target and prompts have to be given, and drafters if they are required
enum class Drafters : std::uint8_t { required, optional };
Result<void> check_arms(const ArmOptions& options, Drafters drafters = Drafters::required);

// The tree that three numbers mean; the default of none.
// Errors    usage
Result<TreeShape> tree_of(const std::vector<std::uint32_t>& numbers);

// A drafter to measure.
struct DrafterArm {
  std::string name;
  Tap* tap;  // null if it needs tokens alone
  BundleFile file;
};
// Each bundle's drafter, and with `merge` once more with others' proposals in its trees, then those
// of kinds that need no bundle.
// Requires  the host has the options' bundles
Result<std::vector<DrafterArm>> open_arms(const ArmOptions& options, ModelHost& host,
                                          const std::vector<std::string>& merge = {});

// Prompts as conversations of one message, as the target's chat template has them.
class ChatPrompts {
 public:
  // The first so many prompts of each task; 0: all.
  // Errors    usage: an index holds kIndexOrder tokens in a row of a reference answer
  static Result<ChatPrompts> read(const ArmOptions& options, std::uint32_t per_task = 0);

  const std::vector<Prompt>& prompts() const { return prompts_; }
  Result<std::vector<std::uint32_t>> tokens_of(const Prompt& prompt) const;

 private:
  ChatPrompts(std::vector<Prompt> prompts, BundleFile target, ChatTemplate chat)
      : prompts_(std::move(prompts)), target_(std::move(target)), chat_(std::move(chat)) {}

  std::vector<Prompt> prompts_;
  BundleFile target_;
  ChatTemplate chat_;
};

}  // namespace edgedraft::bench
