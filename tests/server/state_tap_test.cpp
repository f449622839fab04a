#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "server/passes/pass_loop.h"
#include "shared/drafting/state_tap.h"
#include "shared/protocol/activation_codec.h"
#include "tests/server/plain_answer.h"
#include "tests/server/toy_session.h"
#include "tests/support/heard_replies.h"
#include "tests/support/toy_models.h"

// A tap that needs hidden states gets them for every position. Its session may have computed,
// drafted, shared or resumed the position, or sent it again after an eviction.
namespace edgedraft::server {
namespace {

using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

const std::vector<std::uint32_t> kStates = {1, 4};

// Stores a session's rows by position.
class RowsKeeper final : public testing::HeardReplies {
 public:
  explicit RowsKeeper(ActivationLayout layout) : HeardReplies(true), layout_(std::move(layout)) {}

  void verdict(wire::Verdict v) override {
    if (!v.activations.empty()) keep(valid_from_, v.activations);
    HeardReplies::verdict(std::move(v));
  }
  void activations(wire::Activations chunk) override {
    const auto packed = decompress_activations(layout_, chunk);
    ASSERT_TRUE(packed);
    keep(chunk.first, *packed);
    HeardReplies::activations(std::move(chunk));
  }

  // Sets the first position that becomes valid with the requested pass.
  void expect_from(std::uint32_t position) { valid_from_ = position; }

  std::vector<float> rows;  // by position; missing ones are zero

 private:
  void keep(std::uint32_t first, ByteView packed) {
    const auto count = static_cast<std::uint32_t>(packed.size()) / layout_.row_bytes();
    const auto values = dequantize_rows(layout_, count, packed);
    ASSERT_TRUE(values);
    const std::size_t begin = std::size_t{first} * layout_.cols();
    if (rows.size() < begin + values->size()) rows.resize(begin + values->size());
    std::ranges::copy(*values, rows.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  ActivationLayout layout_;
  std::uint32_t valid_from_ = 0;
};

class StateTapTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kContext = 256;

  StateTapTest() {
    for (std::uint32_t i = 0; i < 90; ++i) prompt_.push_back(3 + (i * i + 7 * i) % 60);
    answer_ = testing::plain_answer(parts_, prompt_, 40, {});
  }

  PassLoop loop(std::uint32_t pages) {
    return {parts_,
            {.sessions = {.sessions_max = 8,
                          .kv_bytes_max = pages * decoder_.pool_size(1, DType::f16).page_bytes()}},
            [this] { return now_; }};
  }
  Client client(std::uint64_t id, std::uint8_t session) {
    keepers_[id] = std::make_shared<RowsKeeper>(layout());
    return {.connection_id = id,
            .reply = keepers_[id],
            .session = {std::byte{session}},
            .identity = "someone",
            .tap = &tap_};
  }
  static ActivationLayout layout() {
    const std::uint32_t dim = ToyDecoder(1).config.layer.dim;
    return ActivationLayout({dim, dim});
  }
  static void run(PassLoop& loop) {
    for (int i = 0; i < 1000 && !loop.idle(); ++i) loop.step();
    ASSERT_TRUE(loop.idle());
  }
  void prefill(PassLoop& server, const Client& c) {
    server.begin(
        c,
        wire::Prefill{.round = 1,
                      .tokens = prompt_,
                      .run = {.credit = kContext, .rows = true, .hold = wire::Hold::lockstep}},
        now_);
    run(server);
    ASSERT_FALSE(keepers_[c.connection_id]->verdicts.empty()) << "expected a verdict";
    EXPECT_EQ(keepers_[c.connection_id]->verdicts.back().next, answer_[0]);
  }
  // Drafts the answer three tokens at a time after the prompt, each right token with a wrong
  // sibling, and ends the run.
  std::uint32_t draft(PassLoop& server, const Client& c, std::uint32_t cycles) {
    RowsKeeper& keeper = *keepers_[c.connection_id];
    std::uint32_t have = 1;
    for (std::uint32_t cycle = 0; cycle < cycles; ++cycle) {
      wire::Hints hints{.round = 1,
                        .complete = true,
                        .position = static_cast<std::uint32_t>(prompt_.size()) + have};
      constexpr std::array<std::uint16_t, 6> kDistances{0, 0, 1, 2, 1, 2};
      for (std::size_t i = 0; i < kDistances.size(); ++i) {
        const std::uint32_t wrong = i % 2 == 0 ? 1 : 0;
        hints.nodes.push_back({.token = (answer_[have + i / 2] + wrong) % testing::kToyVocabulary,
                               .distance = kDistances[i]});
      }
      keeper.expect_from(hints.position - 1);
      server.hints(c.connection_id, hints, now_);
      run(server);
      EXPECT_EQ(keeper.verdicts.back().tokens.size(), 3u);
      have += 4;
    }
    server.cancel(c.connection_id, 1);
    return static_cast<std::uint32_t>(prompt_.size()) + have;
  }
  // The tap's rows for the same tokens, run alone and without pages.
  std::vector<float> expected(std::uint32_t count) {
    Tokens text = testing::joined(prompt_, answer_);
    text.resize(count);
    KvCache cache = decoder_.make_cache(DType::f16);
    decoder_.append(cache, text);
    std::vector<float> values(std::size_t{count} * layout().cols());
    tap_.read(cache, 0, count, values);
    return *dequantize_rows(layout(), count, quantize_rows(layout(), values));
  }

  static bool is_end(std::uint32_t) { return false; }

  Instant now_{std::chrono::hours(1)};
  ToyDecoder toy_{1};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  StateTap tap_{*backend_, kStates, toy_.config.layer.dim};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext, kStates};
  SessionParts parts_{
      .decoder = decoder_, .context_count = kContext, .is_end = is_end, .kv_type = DType::f16};
  std::map<std::uint64_t, std::shared_ptr<RowsKeeper>> keepers_;
  Tokens prompt_;
  Tokens answer_;
};

TEST_F(StateTapTest, SendsStatesOfPromptsAndAcceptedDrafts) {
  PassLoop server = loop(64);
  const Client c = client(1, 1);
  prefill(server, c);
  const std::uint32_t length = draft(server, c, 5);
  EXPECT_EQ(keepers_[1]->rows, expected(length - 1));
}

TEST_F(StateTapTest, SendsStatesOfReusedPages) {
  PassLoop server = loop(64);
  prefill(server, client(1, 1));
  prefill(server, client(2, 2));
  EXPECT_GE(server.memory().tokens_reused, 64u);
  EXPECT_EQ(keepers_[2]->rows, keepers_[1]->rows);
  EXPECT_EQ(keepers_[2]->rows, expected(static_cast<std::uint32_t>(prompt_.size())));
}

TEST_F(StateTapTest, ResendsStatesAfterResume) {
  PassLoop server = loop(64);
  const Client c = client(1, 1);
  prefill(server, c);
  const std::uint32_t length = draft(server, c, 3);
  server.end(1);
  Tokens verified = testing::joined(prompt_, answer_);
  verified.resize(length);
  const Client again = client(2, 2);
  server.begin(again,
               wire::Resume{.round = 1,
                            .session = {std::byte{1}},
                            .verified_length = length,
                            .verified_hash = token_hash(verified)},
               now_);
  run(server);
  for (const Error& refusal : keepers_[2]->refusals) FAIL() << refusal.message;
  EXPECT_EQ(keepers_[2]->rows, expected(length));
}

TEST_F(StateTapTest, SendsSameStatesAfterEviction) {
  // Memory for one context and a tree: the second client's prompt takes the first one's pages.
  PassLoop server = loop(decoder_.pool_size(0).pages_for(kContext + kMaskRowsMax));
  const Client c = client(1, 1);
  prefill(server, c);
  draft(server, c, 2);
  const std::vector<float> before = keepers_[1]->rows;
  const std::size_t prompt_values = prompt_.size() * layout().cols();
  now_ += std::chrono::seconds(10);
  for (std::uint64_t other = 2; other < 8; ++other) {
    const Client o = client(other, static_cast<std::uint8_t>(other));
    Tokens text(200, static_cast<std::uint32_t>(other + 3));
    server.begin(o, wire::Prefill{.round = 1, .tokens = text}, now_);
    run(server);
    ASSERT_FALSE(keepers_[other]->verdicts.empty());
    now_ += std::chrono::seconds(10);
  }
  EXPECT_GT(server.memory().evictions, 0u);
  const Client again = client(1, 9);
  prefill(server, again);
  EXPECT_TRUE(std::equal(keepers_[1]->rows.begin(),
                         keepers_[1]->rows.begin() + static_cast<std::ptrdiff_t>(prompt_values),
                         before.begin()));
}

}  // namespace
}  // namespace edgedraft::server
