#include "shared/drafting/medusa/medusa_tensors.h"

#include <algorithm>
#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/draft_vocabulary.h"
#include "shared/model/tensor_shapes.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {
namespace {

Error bad_tree(std::string message) {
  return {Errc::bad_file, "the drafter's tree " + std::move(message)};
}

Result<void> check_count(std::size_t count) {
  if (count <= kTreeNodesMax) return {};
  return bad_tree("has " + std::to_string(count) + " nodes; at most " +
                  std::to_string(kTreeNodesMax) + " are supported");
}

// Checks nodes; parents must come before children.
Result<void> check_nodes(std::span<const MedusaChoice> nodes, std::uint32_t head_count) {
  std::vector<std::uint32_t> depths{0};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const MedusaChoice& node = nodes[i];
    const std::uint32_t depth = depths[node.parent] + 1;
    if (depth > head_count) {
      return bad_tree("is deeper than its " + std::to_string(head_count) + " heads");
    }
    if (node.rank >= kGuessesMax) {
      return bad_tree("has a node of rank " + std::to_string(node.rank) + "; the highest rank is " +
                      std::to_string(kGuessesMax - 1));
    }
    if (std::ranges::find(nodes.first(i), node) != nodes.begin() + static_cast<std::ptrdiff_t>(i)) {
      return bad_tree("contains a node twice");
    }
    depths.push_back(depth);
  }
  return {};
}

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
      {kBundleVocabularyCountKey, kVocabularyCountMax, config.vocabulary_count},
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
    read_head(file, config, config.dim, reader, tensors.output.emplace());
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

Result<std::vector<MedusaChoice>> tree_of_paths(std::vector<std::vector<std::uint32_t>> paths,
                                                std::uint32_t head_count) {
  if (auto checked = check_count(paths.size()); !checked) return checked.error();
  std::ranges::sort(paths, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::vector<MedusaChoice> nodes;
  for (const auto& path : paths) {
    if (path.empty()) return bad_tree("has a node without a rank");
    std::uint32_t parent = 0;
    if (path.size() > 1) {
      const auto found =
          std::ranges::find(paths, std::vector<std::uint32_t>(path.begin(), path.end() - 1));
      if (found == paths.end()) return bad_tree("lacks the parent of a node");
      parent = static_cast<std::uint32_t>(found - paths.begin()) + 1;
    }
    nodes.push_back({.parent = parent, .rank = path.back()});
  }
  if (auto checked = check_nodes(nodes, head_count); !checked) return checked.error();
  return nodes;
}

Result<std::vector<MedusaChoice>> tree_of_arrays(std::span<const std::int32_t> parents,
                                                 std::span<const std::int32_t> ranks,
                                                 std::uint32_t head_count) {
  if (parents.size() != ranks.size()) {
    return bad_tree("has " + std::to_string(parents.size()) + " parents and " +
                    std::to_string(ranks.size()) + " ranks");
  }
  if (auto checked = check_count(parents.size()); !checked) return checked.error();
  std::vector<MedusaChoice> nodes;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] < 0 || static_cast<std::size_t>(parents[i]) > i || ranks[i] < 0) {
      return bad_tree("has a node whose parent does not come before it, or whose rank is negative");
    }
    nodes.push_back({.parent = static_cast<std::uint32_t>(parents[i]),
                     .rank = static_cast<std::uint32_t>(ranks[i])});
  }
  if (auto checked = check_nodes(nodes, head_count); !checked) return checked.error();
  return nodes;
}

Result<MedusaModel> read_medusa(const GgufFile& file) {
  auto config = read_medusa_config(file);
  if (!config) return config.error();
  auto tensors = read_medusa_tensors(file, *config);
  if (!tensors) return tensors.error();
  return MedusaModel{std::move(*config), std::move(*tensors)};
}

}  // namespace edgedraft
