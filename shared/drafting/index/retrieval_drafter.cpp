#include "shared/drafting/index/retrieval_drafter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/best_first_tree.h"
#include "shared/drafting/weightless_model.h"
#include "shared/model/fingerprint.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {
namespace {

// Weight of unseen tokens, in occurrences, by length of the match (docs/drafters.md).
float escape(std::uint32_t length) {
  return 10.0f / static_cast<float>(length);
}

Result<std::unique_ptr<DrafterModel>> read_with_indexes(
    const GgufFile& file, std::span<const std::filesystem::path> paths) {
  if (paths.empty()) {
    return Error{Errc::usage,
                 "'retrieval' copies from indexes of public texts: give --index FILE, made by "
                 "`edgedraft index`"};
  }
  const auto tokenizer = tokenizer_fingerprint(file);
  if (!tokenizer) return tokenizer.error();
  const auto texts = file.get_strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  std::vector<CorpusIndex> indexes;
  for (const std::filesystem::path& path : paths) {
    auto index = CorpusIndex::open(path);
    if (!index) return index.error();
    if (index->facts().tokenizer != *tokenizer) {
      return Error{Errc::mismatch, path.string() +
                                       ": made with another tokenizer; make it again with --model "
                                       "and a file with the target's tokenizer"};
    }
    // Look-ups only check tokens against the index's own vocabulary size, so it must match.
    if (index->facts().vocabulary_count != texts->size()) {
      return Error{Errc::mismatch, path.string() + ": made for a vocabulary of " +
                                       std::to_string(index->facts().vocabulary_count) +
                                       " tokens, but the target has " +
                                       std::to_string(texts->size()) +
                                       "; make it again with `edgedraft index`"};
    }
    indexes.push_back(std::move(*index));
  }
  auto shared = std::make_shared<const std::vector<CorpusIndex>>(std::move(indexes));
  return make_weightless_model(
      file, kRetrievalKind.name,
      [shared = std::move(shared)](std::uint32_t positions_max,
                                   const auto& /*meter*/) -> std::unique_ptr<Drafter> {
        return std::make_unique<RetrievalDrafter>(shared, positions_max);
      });
}

}  // namespace

ContinuationTrie continuations(const CorpusIndex& index, const CorpusIndex::Match& match,
                               std::uint32_t length_max) {
  ContinuationTrie trie;
  const std::uint64_t count = match.suffixes.count();
  const auto looked_at = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, kPlacesMax));
  trie.nodes.reserve(1 + std::size_t{looked_at} * length_max);
  trie.nodes.push_back({.token = 0, .count = looked_at});
  std::array<std::uint32_t, kPlacesMax> suffixes{};
  for (std::uint32_t i = 0; i < looked_at; ++i) {
    // The middle of each of `looked_at` equal parts.
    const std::uint64_t middle = (2 * std::uint64_t{i} + 1) * count / (2 * looked_at);
    suffixes[i] = match.suffixes.begin + static_cast<std::uint32_t>(middle);
  }
  index.prefetch(std::span(suffixes).first(looked_at), match.length);
  for (std::uint32_t i = 0; i < looked_at; ++i) {
    std::uint32_t node = 0;
    for (const std::uint32_t token : index.tokens(suffixes[i], match.length, length_max)) {
      // In suffix order it is the newest child or new; a damaged file has no order.
      std::uint32_t child = trie.nodes[node].child;
      while (child != 0 && trie.nodes[child].token != token) child = trie.nodes[child].sibling;
      if (child == 0) {
        child = static_cast<std::uint32_t>(trie.nodes.size());
        trie.nodes.push_back({.token = token, .count = 0, .sibling = trie.nodes[node].child});
        trie.nodes[node].child = child;
      }
      ++trie.nodes[child].count;
      node = child;
    }
  }
  return trie;
}

DraftTree continuation_tree(const CorpusIndex& index, std::span<const std::uint32_t> context,
                            const TreeShape& shape) {
  const CorpusIndex::Match match = index.longest_match(context, kMatchMax);
  if (match.length == 0) return {};
  const ContinuationTrie trie =
      continuations(index, match, std::min(kCopiedMax, shape.copied_depth()));
  const float places_each =
      static_cast<float>(match.suffixes.count()) / static_cast<float>(trie.nodes[0].count);
  std::vector<std::uint32_t> depths(trie.nodes.size(), 0);
  return best_first_tree(shape, [&](const DraftTree&, std::uint32_t, std::uint32_t place) {
    const ContinuationTrie::Node& node = trie.nodes[place];
    std::vector<Follower> followers;
    for (std::uint32_t child = node.child; child != 0; child = trie.nodes[child].sibling) {
      depths[child] = depths[place] + 1;
      const float unseen = escape(match.length + depths[place]) / places_each;
      followers.push_back(
          {.token = trie.nodes[child].token,
           .log_prob = table_log_probability(trie.nodes[child].count, node.count, unseen),
           .place = child});
    }
    std::ranges::sort(followers, [](const Follower& a, const Follower& b) {
      return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
    });
    if (followers.size() > shape.breadth) followers.resize(shape.breadth);
    return followers;
  });
}

const DrafterKind kRetrievalKind = {
    .name = "retrieval",
    .joins_others = true,
    .read = [](const GgufFile& file) { return read_with_indexes(file, {}); },
    .read_with_indexes = read_with_indexes};

void RetrievalDrafter::append(std::span<const std::uint32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void RetrievalDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= tokens_.size());
  tokens_.resize(count);
}

bool RetrievalDrafter::grow(TreeGrowth& growth, const GrowthBudget& /*budget*/) {
  EDGEDRAFT_CHECK(token_count() > 0);
  growth.clear();
  growth.finish();
  TreeShape shape = growth.shape();
  shape.limit(positions_max_ - std::min(positions_max_, token_count()));
  if (shape.depth == 0) return true;
  DraftTree tree;
  for (const CorpusIndex& index : *indexes_) {
    DraftTree found = continuation_tree(index, tokens_, shape);
    tree = tree.node_count() == 0 ? std::move(found) : merge(tree, found, shape.nodes);
  }
  growth.add(tree);
  return true;
}

}  // namespace edgedraft
