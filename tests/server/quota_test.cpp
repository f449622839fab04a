#include "server/passes/quota.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/run_rig.h"
#include "tests/support/expect.h"

namespace edgedraft::server {
namespace {

constexpr std::uint32_t kPerMinute = 600;  // ten per second

TEST(TokenBucketsTest, HoldOneMinute) {
  TokenBuckets buckets;
  const Instant start{1h};
  EXPECT_EQ(buckets.wait("a", kPerMinute, start), Duration::zero());
  buckets.charge("a", kPerMinute, kPerMinute - 1, start);
  EXPECT_EQ(buckets.wait("a", kPerMinute, start), Duration::zero()) << "one token is left";
  buckets.charge("a", kPerMinute, 1, start);
  EXPECT_NEAR(milliseconds(buckets.wait("a", kPerMinute, start)), 100.0, 1.0);
  EXPECT_EQ(buckets.wait("a", kPerMinute, start + 101ms), Duration::zero());
  buckets.charge("a", kPerMinute, kPerMinute, start + 24h);
  EXPECT_GT(buckets.wait("a", kPerMinute, start + 24h), Duration::zero())
      << "a day of silence saves one minute's tokens";
}

TEST(TokenBucketsTest, ChargesLeaveDebt) {
  TokenBuckets buckets;
  const Instant start{1h};
  buckets.charge("a", kPerMinute, 3 * kPerMinute, start);
  EXPECT_NEAR(seconds(buckets.wait("a", kPerMinute, start)), 120.1, 0.01);
  EXPECT_NEAR(seconds(buckets.wait("a", 10 * kPerMinute, start)), 12.01, 0.01)
      << "a raised limit pays the debt sooner";
  EXPECT_EQ(buckets.wait("b", kPerMinute, start), Duration::zero());
}

class QuotaTest : public RunTest {
 protected:
  // A client of that tenant.
  HintingClient& sign_in(const std::string& tenant, const Quota& quota) {
    clients_.push_back(std::make_unique<HintingClient>(*loop_,
                                                       RawClient::Options{.id = clients_.size() + 1,
                                                                          .context_count = kContext,
                                                                          .identity = tenant,
                                                                          .quota = quota},
                                                       [this] { return now_; }));
    return *clients_.back();
  }
  // Requests a prompt's first token and returns the refusal, if any.
  std::string ask(HintingClient& client) {
    client.raw().heard.clear();
    EXPECT_TRUE(client.begin(prompt_, {}, {}));
    run_until_idle();
    for (const wire::Message& message : client.raw().heard) {
      const auto* const error = std::get_if<wire::ErrorReport>(&message);
      if (error == nullptr) continue;
      EXPECT_EQ(error->code, Errc::refused);
      return error->message;
    }
    return {};
  }
  // Rows charged to a tenant with one token per minute, by the wait for its debt.
  double rows_charged(const std::string& tenant) {
    const std::string refusal = ask(sign_in(tenant, {.tokens_per_minute = 1}));
    const std::string wait = "try again in ";
    const std::size_t at = refusal.find(wait);
    EXPECT_NE(at, std::string::npos) << refusal;
    return at == std::string::npos ? 0.0 : std::stod(refusal.substr(at + wait.size())) / 60.0;
  }
};

TEST_F(QuotaTest, RefusesTenantInDebtUntilItsBucketRefills) {
  HintingClient& client = sign_in("a", {.tokens_per_minute = 2});
  EXPECT_EQ(ask(client), "");
  EXPECT_TRUE(contains(ask(client), "tenant a has used up its 2 tokens per minute: try again in "));
  EXPECT_TRUE(contains(ask(sign_in("a", {.tokens_per_minute = 2})), "used up"))
      << "connections of a tenant share its tokens";
  EXPECT_EQ(ask(sign_in("b", {.tokens_per_minute = 2})), "") << "tenants do not";
  EXPECT_EQ(ask(sign_in("c", {})), "");
  EXPECT_EQ(metrics_->refusals[static_cast<std::size_t>(Refusal::quota)].value(), 2u);
  now_ += 10min;
  EXPECT_EQ(ask(client), "");
}

TEST_F(QuotaTest, RunningAnswerEndsDespiteDebt) {
  HintingClient& client = sign_in("a", {.tokens_per_minute = 1});
  ASSERT_TRUE(client.begin(prompt_, {}, {.credit = kContext}));
  expect_whole(client, expected_);
}

TEST_F(QuotaTest, ChargesRejectedHintsToTheirTenant) {
  constexpr std::uint32_t kAnswer = 6;
  const auto charged = [&](const std::string& tenant, bool with_hints) {
    HintingClient& client = sign_in(tenant, {.tokens_per_minute = 1});
    EXPECT_TRUE(client.begin(prompt_, {},
                             {.credit = kPromptCount + kAnswer, .hold = wire::Hold::lockstep}));
    for (int pass = 0; pass < 50; ++pass) {
      run_until_idle();
      EXPECT_TRUE(client.listen());
      if (client.answer().size() >= kAnswer) break;
      const std::uint32_t wrong = (expected_[client.answer().size()] + 1) % kToyVocabulary;
      if (!client.complete(with_hints ? Tokens(3, wrong) : Tokens())) break;
    }
    EXPECT_EQ(client.answer(), Tokens(expected_.begin(), expected_.begin() + kAnswer));
    return rows_charged(tenant);
  };
  const double plain = charged("plain", false);
  EXPECT_NEAR(plain, kPromptCount + kAnswer - 1, 0.5);
  EXPECT_NEAR(charged("junk", true), plain + 3 + 3 + 2 + 1, 0.5) << "hints within the credit";
}

TEST_F(QuotaTest, DoesNotChargeRowsThatServerProposed) {
  Speculation speculation(ProposerSource{.make =
                                             [&](std::shared_ptr<std::uint32_t>) {
                                               return std::make_unique<KnownText>(whole_text());
                                             },
                                         .session_bytes = 0},
                          SpeculationOptions{.tree = {.breadth = 1, .depth = 4, .nodes = 4},
                                             .context_count = kContext,
                                             .now = [this] { return now_; }});
  open({.speculation = &speculation, .metrics = metrics_});
  loop_->measure_costs(1s);
  HintingClient& client = sign_in("a", {.tokens_per_minute = 1});
  EXPECT_TRUE(client.begin(prompt_, {}, {.credit = kPromptCount + 20}));
  run_until_idle();
  const PassLoop::Count count = loop_->count();
  EXPECT_GT(count.rows, kPromptCount + count.passes) << "passes had rows of the server's drafts";
  EXPECT_NEAR(rows_charged("a"), kPromptCount + static_cast<double>(count.passes) - 1, 0.5);
  clients_.clear();
  loop_.reset();
}

TEST_F(QuotaTest, LimitsSessionsOfTenant) {
  const Quota two{.sessions_max = 2};
  EXPECT_EQ(ask(sign_in("a", two)), "");
  EXPECT_EQ(ask(sign_in("a", two)), "");
  HintingClient& third = sign_in("a", two);
  EXPECT_TRUE(contains(ask(third), "all 2 sessions of tenant a are in use: try again in 1 s"));
  EXPECT_EQ(ask(sign_in("b", two)), "") << "other tenants are not affected";
  EXPECT_EQ(ask(*clients_.front()), "") << "existing sessions go on";

  now_ += 2s;
  const std::size_t before = metrics_->sessions.value();
  EXPECT_EQ(ask(third), "") << "an idle session of the tenant makes room";
  EXPECT_EQ(metrics_->sessions.value(), before);
}

}  // namespace
}  // namespace edgedraft::server
