#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/draft_network.h"
#include "shared/runtime/backend.h"

namespace edgedraft::testing {

inline std::vector<float> read_matrix(Backend& backend, const Matrix& matrix) {
  std::vector<float> values(std::size_t{matrix.rows} * matrix.cols);
  backend.read(matrix, values);
  return values;
}

inline std::vector<float> read_logits(DraftNetwork& network) {
  return read_matrix(network.backend(), network.logits());
}

inline void expect_close(std::span<const float> values, std::span<const float> expected,
                         double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

// Expands the tokens after the last committed one as a chain of draft rows, one level per call.
// Returns the logits after the last.
inline std::vector<float> expand_chain(DraftNetwork& network,
                                       std::span<const std::uint32_t> tokens) {
  AncestorMask ancestors;
  for (std::uint32_t i = 0; i < tokens.size(); ++i) {
    const GrowthNode node{.token = tokens[i], .depth = i + 1, .ancestors = ancestors};
    network.expand(std::span(&node, 1));
    ancestors.set(i);
  }
  return read_logits(network);
}

}  // namespace edgedraft::testing
