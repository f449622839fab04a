#include "shared/protocol/overhead.h"

#include <gtest/gtest.h>

#include "tests/protocol/support.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kLargeToken = (1u << 24) - 1;

// The paper's 4 M bytes up, and the overhead that overhead.h declares.
TEST(OverheadTest, DraftIsWithinTheFormula) {
  for (std::uint32_t count = 0; count <= kDraftNodesMax; ++count) {
    const wire::Draft draft{.round = 0xFFFFFFFF,
                            .base_length = kContextCountMax,
                            .tokens = std::vector<std::uint32_t>(count, kLargeToken),
                            .parents = std::vector<std::uint8_t>(count, 0)};
    EXPECT_LE(wire::encode(outgoing(draft)).size(), draft_frame_bytes_max(count)) << count;
  }
}

// The paper's 3 A + 2 A E_kv (TLI + 1) bytes down at E_kv = 1024, for TLI 0, 1 and 3, and none.
TEST(OverheadTest, VerdictIsWithinTheFormula) {
  for (const std::uint32_t cols : {0u, 2048u, 4096u, 8192u}) {
    const ActivationLayout layout(cols == 0 ? std::vector<std::uint32_t>{}
                                            : std::vector<std::uint32_t>(cols / 1024, 1024));
    for (std::uint32_t new_count = 1; new_count <= 64; ++new_count) {
      wire::Verdict verdict{.round = 0xFFFFFFFF,
                            .length = kContextCountMax,
                            .next = kLargeToken,
                            .accepted_count = 0,
                            .path = {},
                            .ending = wire::Ending::end_token,
                            .row_budget = 0xFFFFFFFF,
                            .queue_us = 0xFFFFFFFF,
                            .verify_us = 0xFFFFFFFF,
                            .activations = Bytes(std::size_t{new_count} * layout.row_bytes()),
                            .pace_us = 0xFFFFFFFF,
                            .computed_us = 0xFFFFFFFF,
                            .stream_us = 0xFFFFFFFF,
                            .prefers_streams = true};
      for (std::uint32_t i = 1; i < new_count; ++i) {
        verdict.path.push_back(static_cast<std::uint8_t>(i));
      }
      EXPECT_EQ(verdict_formula_bytes(layout, new_count),
                std::uint64_t{new_count} * 3 + std::uint64_t{new_count} * cols);
      EXPECT_LE(wire::encode(verdict).size(), verdict_frame_bytes_max(layout, new_count))
          << cols << " values, " << new_count << " tokens";
    }
  }
}

TEST(OverheadTest, AStreamsVerdictIsWithinItsBound) {
  for (std::uint32_t new_count = 1; new_count <= 64; ++new_count) {
    const wire::Verdict verdict{.round = 0xFFFFFFFF,
                                .length = kContextCountMax,
                                .next = kLargeToken,
                                .ending = wire::Ending::end_token,
                                .row_budget = 0xFFFFFFFF,
                                .queue_us = 0xFFFFFFFF,
                                .verify_us = 0xFFFFFFFF,
                                .pace_us = 0xFFFFFFFF,
                                .computed_us = 0xFFFFFFFF,
                                .tokens = std::vector<std::uint32_t>(new_count - 1, kLargeToken),
                                .drafted = kDraftNodesMax,
                                .draft_us = 0xFFFFFFFF,
                                .prefers_streams = true};
    EXPECT_LE(wire::encode(verdict).size(), stream_verdict_frame_bytes_max(new_count));
  }
}

}  // namespace
}  // namespace edgedraft
