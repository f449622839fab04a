#include "shared/drafting/index/retrieval_kind.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared/drafting/index/retrieval_drafter.h"
#include "shared/drafting/weightless_model.h"
#include "shared/model/fingerprint.h"

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

}  // namespace edgedraft
