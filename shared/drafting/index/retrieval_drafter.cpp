#include "shared/drafting/index/retrieval_drafter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/index/continuation_tree.h"
#include "shared/drafting/weightless_model.h"
#include "shared/model/fingerprint.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {
namespace {

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
