#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "shared/protocol/outgoing.h"

namespace edgedraft {
namespace {

using Tokens = std::vector<std::uint32_t>;

// Only a ledger creates the conversation content of a message.
static_assert(!std::is_constructible_v<SafePrefix, Tokens>);
static_assert(!std::is_constructible_v<SafePrefix, std::uint32_t, Digest, Tokens>);
static_assert(!std::is_constructible_v<SafeHints, std::vector<HintNode>>);
static_assert(!std::is_constructible_v<SafeHints, std::uint32_t, std::vector<HintNode>>);
static_assert(!std::is_convertible_v<TaintLedger, SafeHints>);
static_assert(!std::is_convertible_v<SamplingParams, SafeParameters>);
// Decoded messages cannot be sent on.
static_assert(!std::is_constructible_v<wire::OutgoingMessage, wire::Prefill>);
static_assert(!std::is_constructible_v<wire::OutgoingMessage, wire::Resume>);
static_assert(!std::is_constructible_v<wire::OutgoingMessage, wire::Hints>);
static_assert(!std::is_constructible_v<wire::OutgoingMessage, wire::Message>);

TaintLedger ledger_with(const Tokens& safe, const Tokens& unsafe) {
  TaintLedger ledger;
  for (const std::uint32_t token : safe) ledger.append(token, Provenance::given);
  for (const std::uint32_t token : unsafe) ledger.append(token, Provenance::private_);
  return ledger;
}

TEST(SafePrefixTest, HoldsTokensAfterBaseAndHashOfBase) {
  const TaintLedger ledger = ledger_with({5, 6, 7, 8}, {});
  const SafePrefix text(ledger, 1, 2);
  EXPECT_EQ(text.base_count(), 1u);
  EXPECT_EQ(text.base_hash(), token_hash(Tokens{5}));
  EXPECT_EQ(Tokens(text.tokens().begin(), text.tokens().end()), (Tokens{6, 7}));
}

// Private text after the safe prefix changes nothing, including lengths and hashes.
TEST(SafePrefixTest, DoesNotDependOnPrivateText) {
  const SafePrefix one(ledger_with({5, 6}, {1}), 2, 0);
  const SafePrefix other(ledger_with({5, 6}, {2, 3, 4}), 2, 0);
  EXPECT_EQ(wire::encode(wire::OutgoingPrefill{.text = one}),
            wire::encode(wire::OutgoingPrefill{.text = other}));
  EXPECT_EQ(wire::encode(wire::OutgoingResume{.text = one}),
            wire::encode(wire::OutgoingResume{.text = other}));
}

TEST(SafePrefixDeathTest, RejectsPrivateTokensAndTheirHashes) {
  const TaintLedger ledger = ledger_with({5, 6}, {7, 8});
  EXPECT_DEATH(SafePrefix(ledger, 0, 3), "untainted");
  EXPECT_DEATH(SafePrefix(ledger, 2, 1), "untainted");
  EXPECT_DEATH(SafePrefix(ledger, 3, 0), "untainted");
}

TEST(SafeHintsTest, StartAtEndOfConversation) {
  const TaintLedger ledger = ledger_with({5, 6, 7}, {});
  const SafeHints hints(ledger, {{.token = 1}});
  EXPECT_EQ(hints.position(), 3u);
  EXPECT_EQ(hints.nodes().size(), 1u);
  EXPECT_EQ(SafeHints(ledger, {}).position(), 3u);
  EXPECT_TRUE(SafeHints(ledger, {}).nodes().empty());
}

TEST(SafeHintsDeathTest, RejectPrivateConversation) {
  const TaintLedger ledger = ledger_with({5, 6}, {7});
  EXPECT_DEATH(SafeHints(ledger, {{.token = 1}}), "untainted");
  // Even its length would reveal the length of the private text.
  EXPECT_DEATH(SafeHints(ledger, {}), "untainted");
}

}  // namespace
}  // namespace edgedraft
