#include "shared/privacy/taint_ledger.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

TEST(TaintLedgerTest, TaintsTokensAfterPrivateText) {
  TaintLedger ledger;
  ledger.append(1, Provenance::given);
  ledger.append(2, Provenance::private_);
  ledger.append(3, Provenance::given);
  ledger.append(4, Provenance::verified);
  EXPECT_EQ(ledger.provenance(0), Provenance::given);
  for (std::uint32_t i = 1; i < 4; ++i) EXPECT_EQ(ledger.provenance(i), Provenance::private_);
  EXPECT_TRUE(ledger.untainted(0));
  EXPECT_TRUE(ledger.untainted(1));
  EXPECT_FALSE(ledger.untainted(2));
  EXPECT_FALSE(ledger.untainted(4));
}

TEST(TaintLedgerTest, TruncationRemovesTaint) {
  TaintLedger ledger;
  ledger.append(1, Provenance::given);
  ledger.append(2, Provenance::private_);
  ledger.truncate(1);
  ledger.append(3, Provenance::given);
  EXPECT_TRUE(ledger.untainted(2));
  EXPECT_EQ(ledger.provenance(1), Provenance::given);
}

TEST(TaintLedgerTest, ConfirmVerifiesOfflineTokens) {
  TaintLedger ledger;
  ledger.append(1, Provenance::given);
  ledger.append(2, Provenance::offline);
  ledger.append(3, Provenance::offline);
  ledger.confirm(1, 1);
  EXPECT_EQ(ledger.provenance(1), Provenance::verified);
  EXPECT_EQ(ledger.provenance(2), Provenance::offline);
}

}  // namespace
}  // namespace edgedraft
