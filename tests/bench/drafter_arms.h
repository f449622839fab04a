#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "client/engine/bundle_file.h"
#include "netsim/pace_profile.h"
#include "netsim/profile.h"
#include "netsim/run/experiment.h"
#include "server/program/model_host.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/tap.h"
#include "shared/speculative/tree_growth.h"
#include "shared/types/sampling_params.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {
using namespace client;
using namespace server;

// Drafters, target and prompts to measure, and how to answer and draft.
struct ArmOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> bundles;
  std::vector<std::string> kinds;  // "a+b": both on one tree
  std::vector<std::filesystem::path> indexes;
  std::filesystem::path prompts;
  bool raw = false;                 // prompts as they are, for targets without a chat template
  std::vector<std::uint32_t> tree;  // breadth, depth, nodes; empty: 8,6,62
  std::uint32_t max_tokens = 160;
  float temperature = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t threads = 0;
  std::string device = "cpu";  // device of the drafters
  std::string features = "auto";

  SamplingParams sampling() const { return {.temperature = temperature, .seed = seed}; }
};
void declare_arms(CLI::App& app, ArmOptions& options);
// Errors    usage: target, prompts or required drafters are missing
enum class Drafters : std::uint8_t { required, optional };
Result<void> check_arms(const ArmOptions& options, Drafters drafters = Drafters::required);

// The tree for three numbers; the default for none.
// Errors    usage
Result<TreeShape> tree_of(const std::vector<std::uint32_t>& numbers);

// Whether the pace profile gives the drafter's speed on its hardware and, for padded payloads, the
// size of its activations.
// Errors    usage
enum class Payloads : std::uint8_t { own, padded };
Result<void> check_pace(const PaceProfile& pace, const DrafterFacts& facts,
                        Payloads payloads = Payloads::own);

// A drafter to measure.
struct DrafterArm {
  std::string name;
  Tap* tap;  // null if it needs tokens alone
  BundleFile file;
  bool is_network;  // alone, so it has a distribution to sample drafts from
};
// Each bundle's drafter, with `merge` again with other drafters' proposals in its trees, then the
// kinds that need no bundle.
// Requires  the host has the options' bundles
Result<std::vector<DrafterArm>> open_arms(const ArmOptions& options, ModelHost& host,
                                          const std::vector<std::string>& merge = {});

using TokenLists = std::vector<std::vector<std::uint32_t>>;
// Encodes prompts as single-message conversations with the bundle's chat template.
Result<TokenLists> encode_prompts(const BundleFile& bundle,
                                  std::span<const netsim::Prompt> prompts);

struct ChatPrompts {
  std::vector<netsim::Prompt> prompts;
  TokenLists tokens;
};
// The first `per_task` prompts of each task; 0: all. With --raw without the chat template.
// Errors    usage: an index holds kIndexOrder consecutive tokens of a reference answer
Result<ChatPrompts> read_chat_prompts(const ArmOptions& options, std::uint32_t per_task = 0);

// Networks by profile name or file.
Result<std::vector<netsim::NetworkProfile>> read_links(const std::vector<std::string>& names);

}  // namespace edgedraft::bench
