#pragma once

#include <cstdint>
#include <vector>

namespace edgedraft {

// Settings shared by all kinds of drafter bundles that use a tap.
struct BundleConfig {
  std::uint32_t vocabulary_count = 0;
  std::uint32_t context_length = 0;
  std::uint32_t target_layer_count = 0;
  std::vector<std::uint32_t> draft_tokens;  // as in DecoderConfig

  std::uint32_t head_rows() const {
    return draft_tokens.empty() ? vocabulary_count
                                : static_cast<std::uint32_t>(draft_tokens.size());
  }
};

}  // namespace edgedraft
