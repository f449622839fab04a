#include "shared/drafting/medusa/medusa_tensors.h"

#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/draft_vocabulary.h"
#include "shared/model/tensor_shapes.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {
namespace {

Result<std::vector<MedusaChoice>> read_tree(const GgufFile& file, std::uint32_t head_count) {
  if (file.find_value(kMedusaTreeParents) == nullptr &&
      file.find_value(kMedusaTreeRanks) == nullptr) {
    return std::vector<MedusaChoice>();
  }
  const auto parents = file.get_i32s(kMedusaTreeParents);
  if (!parents) return parents.error();
  const auto ranks = file.get_i32s(kMedusaTreeRanks);
  if (!ranks) return ranks.error();
  return tree_of_arrays(*parents, *ranks, head_count);
}

Result<MedusaConfig> read_medusa_config(const GgufFile& file) {
  MedusaConfig config;
  if (auto read = read_bundle_config(file, kMedusaArchitecture, config); !read) return read.error();
  const struct {
    std::string_view key;
    std::uint32_t max;
    std::uint32_t& out;
  } counts[] = {
      {kMedusaVocabularyCount, kVocabularyCountMax, config.vocabulary_count},
      {kMedusaDim, kWidthMax, config.dim},
      {kMedusaHeadCount, kTreeDepthMax, config.head_count},
  };
  for (const auto& count : counts) {
    const auto value = read_count(file, count.key, count.max);
    if (!value) return value.error();
    count.out = *value;
  }
  if (auto row = check_row(std::span(&config.dim, 1)); !row) return row.error();
  auto tree = read_tree(file, config.head_count);
  if (!tree) return tree.error();
  config.tree = std::move(*tree);
  auto draft_tokens = read_draft_tokens(file, config.vocabulary_count);
  if (!draft_tokens) return draft_tokens.error();
  config.draft_tokens = std::move(*draft_tokens);
  return config;
}

Result<MedusaTensors> read_medusa_tensors(const GgufFile& file, const MedusaConfig& config) {
  MedusaTensors tensors;
  TensorReader reader(file, "");
  const bool is_shared = file.find_tensor("head.0.output.weight") == nullptr;
  if (is_shared) {
    // A tied head is the embedding, which is not used otherwise here.
    const bool is_tied =
        file.find_tensor("output.weight") == nullptr && config.draft_tokens.empty();
    reader.matrix(is_tied ? "token_embd.weight" : "output.weight", config.head_rows(), config.dim,
                  tensors.output.emplace());
  } else if (!config.draft_tokens.empty()) {
    return Error{Errc::unsupported, "heads with separate outputs cannot have a reduced vocabulary"};
  }
  for (std::uint32_t k = 0; k < config.head_count; ++k) {
    const std::string prefix = "head." + std::to_string(k) + ".";
    MedusaTensors::Head& head = tensors.heads.emplace_back();
    reader.matrix(prefix + "weight", config.dim, config.dim, head.weight);
    reader.vector(prefix + "bias", config.dim, head.bias);
    if (is_shared) {
      reader.refuse(prefix + "output.weight");
    } else {
      reader.matrix(prefix + "output.weight", config.vocabulary_count, config.dim, head.output);
    }
  }
  if (reader.error()) return *reader.error();
  return tensors;
}

}  // namespace

Result<MedusaModel> read_medusa(const GgufFile& file) {
  auto config = read_medusa_config(file);
  if (!config) return config.error();
  auto tensors = read_medusa_tensors(file, *config);
  if (!tensors) return tensors.error();
  return MedusaModel{std::move(*config), std::move(*tensors)};
}

}  // namespace edgedraft
