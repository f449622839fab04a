#include "tests/support/overhead.h"

#include <gtest/gtest.h>

#include "tests/protocol/support.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kLargeToken = (1u << 24) - 1;

// The paper's 4 M bytes up, plus the overhead declared in overhead.h.
TEST(OverheadTest, CompleteHintsStayWithinFormula) {
  for (std::uint32_t count = 0; count <= kDraftNodesMax; ++count) {
    const wire::Hints hints{.round = 0xFFFFFFFF,
                            .credit = kContextCountMax,
                            .hold = wire::Hold::lockstep,
                            .complete = true,
                            .position = kContextCountMax,
                            .nodes = std::vector<HintNode>(count, {.token = kLargeToken})};
    EXPECT_LE(wire::encode(outgoing(hints)).size(), draft_frame_bytes_max(count)) << count;
  }
}

// The paper's 3 A + 2 A E_kv (TLI + 1) bytes down at E_kv = 1024, for TLI 0, 1 and 3, and without
// activations. Here a token takes four bytes instead of three.
TEST(OverheadTest, VerdictStaysWithinFormula) {
  for (const std::uint32_t cols : {0u, 2048u, 4096u, 8192u}) {
    const ActivationLayout layout(cols == 0 ? std::vector<std::uint32_t>{}
                                            : std::vector<std::uint32_t>(cols / 1024, 1024));
    for (std::uint32_t new_count = 1; new_count <= 64; ++new_count) {
      const wire::Verdict verdict{.round = 0xFFFFFFFF,
                                  .length = kContextCountMax,
                                  .next = kLargeToken,
                                  .tokens = std::vector<std::uint32_t>(new_count - 1, kLargeToken),
                                  .ending = wire::Ending::end_token,
                                  .activations = Bytes(std::size_t{new_count} * layout.row_bytes()),
                                  .queue_us = 0xFFFFFFFF,
                                  .verify_us = 0xFFFFFFFF,
                                  .held_us = 0xFFFFFFFF,
                                  .drafted = kDraftNodesMax,
                                  .draft_us = 0xFFFFFFFF,
                                  .hinted = kDraftNodesMax,
                                  .hints_seen = 0xFFFFFFFF};
      EXPECT_EQ(verdict_formula_bytes(layout, new_count),
                std::uint64_t{new_count} * 3 + std::uint64_t{new_count} * cols);
      EXPECT_LE(wire::encode(verdict).size(), verdict_frame_bytes_max(layout, new_count))
          << cols << " values, " << new_count << " tokens";
    }
  }
}

}  // namespace
}  // namespace edgedraft
