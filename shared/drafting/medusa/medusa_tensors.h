#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/drafting/medusa/medusa_tree.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a bundle, and its keys beyond those of bundle_parts.h.
inline constexpr std::string_view kMedusaArchitecture = "edgedraft-medusa";
inline constexpr std::string_view kMedusaVocabularyCount = "edgedraft.vocab_size";
inline constexpr std::string_view kMedusaDim = "edgedraft.embedding_length";
inline constexpr std::string_view kMedusaHeadCount = "edgedraft.medusa.head_count";
// Arrays, one element per node (MedusaChoice); both or neither.
inline constexpr std::string_view kMedusaTreeParents = "edgedraft.medusa.tree.parents";
inline constexpr std::string_view kMedusaTreeRanks = "edgedraft.medusa.tree.ranks";

// MEDUSA's heads as a bundle holds them.
struct MedusaConfig : BundleConfig {
  std::uint32_t dim = 0;  // width of the target's residual stream
  std::uint32_t head_count = 0;
  std::vector<MedusaChoice> tree;  // empty: trees are grown by the heads' probabilities
};

struct MedusaTensors {
  struct Head {
    TensorView weight;  // [dim, dim]
    TensorView bias;    // [1, dim]
    TensorView output;  // [vocabulary, dim]; empty if heads share the target's
  };
  std::vector<Head> heads;
  // The target's, [head_rows, dim]; absent if each head has its own.
  std::optional<TensorView> output;
};

struct MedusaModel {
  MedusaConfig config;
  MedusaTensors tensors;
};
// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<MedusaModel> read_medusa(const GgufFile& file);

}  // namespace edgedraft
