#include "shared/drafting/ngram/ngram_drafter.h"

#include <algorithm>
#include <array>
#include <vector>

#include "shared/base/check.h"
#include "shared/drafting/best_first_tree.h"
#include "shared/drafting/weightless_model.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kLookupOrderMax = 3;
constexpr std::uint32_t kLookupTokens = 10;
// Counts only the newest occurrences of a frequent context.
constexpr std::size_t kCountedMax = 64;

// Weight of unseen tokens, in occurrences, by length of the match: a compromise between answers
// that copy little and much (docs/drafters.md).
constexpr std::array<float, NgramTable::kOrderMax + 1> kEscape = {0.0f, 2.0f, 1.2f, 1.0f, 1.0f};

float log_probability(std::size_t count, std::size_t total, std::size_t order) {
  return table_log_probability(count, total, kEscape[order]);
}

// Followers of `context`, or of its longest known suffix, likeliest first; ties to the newer.
std::vector<Follower> followers(const NgramTable& table, std::span<const std::uint32_t> context,
                                std::uint32_t count_max) {
  for (std::size_t order = std::min<std::size_t>(context.size(), NgramTable::kOrderMax); order > 0;
       --order) {
    auto positions = table.followers(context.last(order));
    if (positions.empty()) continue;
    if (positions.size() > kCountedMax) positions = positions.last(kCountedMax);
    struct Seen {
      std::uint32_t token;
      std::size_t count;
      std::uint32_t newest;
    };
    std::vector<Seen> seen;
    for (const std::uint32_t position : positions) {
      const std::uint32_t token = table.tokens()[position];
      const auto place = std::ranges::find(seen, token, &Seen::token);
      if (place == seen.end()) {
        seen.push_back({.token = token, .count = 1, .newest = position});
      } else {
        ++place->count;
        place->newest = position;
      }
    }
    std::ranges::sort(seen, [](const Seen& a, const Seen& b) {
      return a.count != b.count ? a.count > b.count : a.newest > b.newest;
    });
    if (seen.size() > count_max) seen.resize(count_max);
    std::vector<Follower> result;
    for (const Seen& s : seen) {
      result.push_back(
          {.token = s.token, .log_prob = log_probability(s.count, positions.size(), order)});
    }
    return result;
  }
  return {};
}

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file, NgramDrafter::Tree tree,
                                           const DrafterKind& kind) {
  return make_weightless_model(file, kind.name,
                               [tree](std::uint32_t positions_max, const auto& meter) {
                                 return std::make_unique<NgramDrafter>(tree, positions_max, meter);
                               });
}

// Merges both trees; a path in both has the better score.
DraftTree ngram_tree(const NgramTable& table, const TreeShape& shape) {
  return merge(adaptive_tree(table, shape), lookup_tree(table, shape), shape.nodes);
}

}  // namespace

DraftTree lookup_tree(const NgramTable& table, const TreeShape& shape) {
  const auto tokens = table.tokens();
  const std::uint32_t length = std::min({kLookupTokens, shape.copied_depth(), shape.nodes});
  DraftTree tree;
  std::uint32_t copies = 0;
  for (std::size_t order = std::min<std::size_t>(kLookupOrderMax, tokens.size()); order > 0;
       --order) {
    const auto positions = table.followers(tokens.last(order));
    // Earliest first: it has the longest continuation.
    for (const std::uint32_t first : positions) {
      if (copies == shape.breadth || tree.node_count() == shape.nodes) return tree;
      if (tree.child(0, tokens[first]) != 0) continue;
      const auto same = std::ranges::count_if(
          positions, [&](std::uint32_t p) { return tokens[p] == tokens[first]; });
      const std::size_t end = std::min<std::size_t>(first + length, tokens.size());
      std::uint32_t row = 0;
      Score score = log_probability(static_cast<std::size_t>(same), positions.size(), order);
      for (std::size_t p = first; p < end && tree.node_count() < shape.nodes; ++p) {
        row = tree.add(tokens[p], row, score);
        // The further a copy goes, the longer the run that it continues.
        const std::size_t run = std::min<std::size_t>(order + p + 1 - first, NgramTable::kOrderMax);
        score += log_probability(1, 1, run);
      }
      ++copies;
    }
  }
  return tree;
}

DraftTree adaptive_tree(const NgramTable& table, const TreeShape& shape) {
  std::vector<std::uint32_t> context;
  return best_first_tree(shape, [&](const DraftTree& tree, std::uint32_t row, std::uint32_t) {
    context.clear();
    for (std::uint32_t r = row; r > 0 && context.size() < NgramTable::kOrderMax;
         r = tree.parent(r)) {
      context.push_back(tree.token(r));
    }
    const auto tokens = table.tokens();
    for (std::size_t i = tokens.size(); i > 0 && context.size() < NgramTable::kOrderMax; --i) {
      context.push_back(tokens[i - 1]);
    }
    std::ranges::reverse(context);
    return followers(table, context, shape.breadth);
  });
}

const DrafterKind kLookupKind = {.name = "pld", .read = [](const GgufFile& file) {
                                   return read(file, lookup_tree, kLookupKind);
                                 }};
const DrafterKind kAdaptiveKind = {.name = "anpd", .read = [](const GgufFile& file) {
                                     return read(file, adaptive_tree, kAdaptiveKind);
                                   }};
const DrafterKind kNgramKind = {
    .name = "ngram", .joins_others = true, .read = [](const GgufFile& file) {
      return read(file, ngram_tree, kNgramKind);
    }};

void NgramDrafter::append(std::span<const std::uint32_t> tokens) {
  const std::uint32_t room = positions_max_ - std::min(positions_max_, token_count_);
  table_.append(tokens.first(std::min<std::size_t>(tokens.size(), room)));
  token_count_ += static_cast<std::uint32_t>(tokens.size());
}

void NgramDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= token_count_);
  if (count < table_.tokens().size()) table_.truncate(count);
  token_count_ = count;
}

bool NgramDrafter::grow(TreeGrowth& growth, const GrowthBudget& /*budget*/) {
  EDGEDRAFT_CHECK(token_count() > 0);
  growth.clear();
  growth.finish();
  TreeShape shape = growth.shape();
  shape.limit(positions_max_ - std::min(positions_max_, token_count()));
  if (shape.depth > 0) growth.add(tree_(table_, shape));
  return true;
}

}  // namespace edgedraft
