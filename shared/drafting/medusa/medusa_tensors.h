#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// A node of a fixed draft tree. `parent` is a row as in DraftTree (0 is the root, row i + 1 is node
// i); the token is guess number `rank` of the head for its depth.
//
// Source    MEDUSA, section 3.3 (sparse tree)
struct MedusaChoice {
  std::uint32_t parent;
  std::uint32_t rank;

  bool operator==(const MedusaChoice&) const = default;
};

// Builds a tree from its nodes' paths of ranks, as checkpoints list them: (0), (0, 0), (1), ...
// Errors    bad_file: too many nodes, a rank out of range, a duplicate path, one whose prefix is
//           missing, or one longer than the number of heads
Result<std::vector<MedusaChoice>> tree_of_paths(std::vector<std::vector<std::uint32_t>> paths,
                                                std::uint32_t head_count);

// As above, from a file's arrays. Errors    as above; a parent that does not come first
Result<std::vector<MedusaChoice>> tree_of_arrays(std::span<const std::int32_t> parents,
                                                 std::span<const std::int32_t> ranks,
                                                 std::uint32_t head_count);

// general.architecture of a bundle, and its keys beyond those of bundle_parts.h.
inline constexpr std::string_view kMedusaArchitecture = "edgedraft-medusa";
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
