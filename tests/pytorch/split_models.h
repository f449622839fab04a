#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/draft_network.h"
#include "shared/drafting/tap.h"
#include "shared/model/gguf.h"
#include "shared/runtime/decoder.h"
#include "tests/pytorch/expected.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {

// A fixture's test name: GoogleTest allows only letters, digits and underscores.
inline std::string name_of(std::string fixture) {
  std::replace_if(
      fixture.begin(), fixture.end(), [](char c) { return c == '/' || c == '-'; }, '_');
  return fixture;
}

// A drafter fixture's target, and a bundle made from the drafter's checkpoint in its public layout.
// Both are converted by the user's commands; the drafter's own matrices stay float32.
class SplitModels {
 public:
  static constexpr std::uint32_t kPositions = 128;

  explicit SplitModels(const std::filesystem::path& drafter) : drafter_(drafter) {
    const auto own_target = fixtures() / drafter.parent_path() / "target";
    const auto target = convert_model(
        {.input = std::filesystem::exists(own_target) ? own_target : fixtures() / "moa/target",
         .output = directory_ / "target.gguf",
         .type = DType::f32});
    EXPECT_TRUE(target) << target.error().message;
    const auto made = make_bundle({.target = directory_ / "target.gguf",
                                   .drafter = fixtures() / drafter,
                                   .output = directory_ / "bundle.gguf",
                                   .type = DType::f32});
    EXPECT_TRUE(made) << made.error().message;
    target_ = GgufFile::open(directory_ / "target.gguf").value();
    bundle_ = GgufFile::open(directory_ / "bundle.gguf").value();
  }

  const GgufFile& bundle() const { return bundle_; }
  Backend& backend() { return *backend_; }
  Expected expected() const { return Expected(fixtures() / drafter_); }
  // The target, keeping the states that a tap reads.
  std::unique_ptr<Decoder> decoder(const Tap& tap) {
    const auto states = tap.states();
    const DecoderConfig config = read_decoder_config(target_).value();
    return std::make_unique<Decoder>(*backend_, config,
                                     read_decoder_tensors(target_, config).value(), kPositions,
                                     std::vector<std::uint32_t>(states.begin(), states.end()));
  }

 private:
  static std::filesystem::path fixtures() { return EDGEDRAFT_TEST_DATA "/fixtures"; }

  std::filesystem::path drafter_;
  test::TemporaryDirectory directory_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 2});
  GgufFile target_;
  GgufFile bundle_;
};

// The target's rows for the positions missing from a cache, which it then holds; the last token is
// a root that was not run.
inline std::vector<float> new_rows(Decoder& target, KvCache& cache, Tap& tap,
                                   std::span<const std::uint32_t> tokens) {
  const std::uint32_t known = cache.length();
  const auto count = static_cast<std::uint32_t>(tokens.size()) - 1 - known;
  if (count == 0) return {};
  target.append(cache, tokens.subspan(known, count));
  std::size_t cols = 0;
  for (const std::uint32_t group : tap.scale_groups()) cols += group;
  std::vector<float> rows(count * cols);
  tap.read(cache, known, count, rows);
  return rows;
}

// Counts the tokens that are nodes of a tree, each a child of the one before it.
inline std::uint32_t accepted_count(std::span<const std::uint32_t> tokens,
                                    std::span<const std::uint32_t> nodes,
                                    std::span<const std::int32_t> parents) {
  std::uint32_t count = 0;
  std::int32_t parent = -1;
  for (const std::uint32_t token : tokens) {
    std::size_t node = 0;
    while (node < nodes.size() && (parents[node] != parent || nodes[node] != token)) ++node;
    if (node == nodes.size()) break;
    parent = static_cast<std::int32_t>(node);
    ++count;
  }
  return count;
}

// Logits after the root and each node of a tree, in every round, from a network that keeps its
// state and receives only new rows. Each round accepts a path of the previous tree, or none of it.
// The network has extend_memory(first, rows).
template <class Network>
void expect_same_rounds(const Expected& expected, Decoder& target, Tap& tap, Network& network) {
  KvCache cache = target.make_cache();
  std::uint32_t rounds = 0;
  std::uint32_t accepting = 0;
  std::uint32_t rejecting = 0;
  std::vector<std::uint32_t> nodes;
  std::vector<std::int32_t> parents;
  for (std::string r = "round0"; expected.has(r + ".tokens");
       r = "round" + std::to_string(++rounds)) {
    const auto tokens = expected.tokens(r + ".tokens");
    const std::uint32_t known = cache.length();
    const std::vector<float> rows = new_rows(target, cache, tap, tokens);
    if (!rows.empty()) network.extend_memory(known, rows);
    if (rounds > 0) {
      // The previous root, whose row is among the new ones, has been verified since.
      const auto behind_root = std::span(tokens).subspan(known + 1);
      (accepted_count(behind_root, nodes, parents) > 1 ? accepting : rejecting) += 1;
    }
    network.commit(std::span(tokens).subspan(network.committed_count()));
    expect_agreement(read_logits(network), expected.floats(r + ".root_logits"), r + " root");

    nodes = expected.tokens(r + ".nodes");
    parents = expected.ints(r + ".parents");
    const auto logits = expected.floats(r + ".logits");
    std::vector<GrowthNode> drafted;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      GrowthNode node{.token = nodes[i], .depth = 1, .ancestors = {}};
      if (parents[i] >= 0) {
        const GrowthNode& parent = drafted[static_cast<std::size_t>(parents[i])];
        node.depth = parent.depth + 1;
        node.ancestors = parent.ancestors;
        node.ancestors.set(static_cast<std::uint32_t>(parents[i]));
      }
      drafted.push_back(node);
      network.expand(std::span(&drafted.back(), 1));
      const std::size_t vocabulary = network.vocabulary_count();
      expect_agreement(read_logits(network), std::span(logits).subspan(i * vocabulary, vocabulary),
                       r + " node " + std::to_string(i));
    }
  }
  EXPECT_GE(accepting, 2u);
  EXPECT_GE(rejecting, 2u);
}

}  // namespace edgedraft::testing
