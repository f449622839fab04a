// Requests with constraints, valid and invalid.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/server/run_rig.h"

namespace edgedraft::server {
namespace {

class ConstrainedRequestsTest : public RunTest {
 protected:
  ConstrainedRequestsTest() {
    // Tokens are letters in rotation: "a" is 3, "b" is 4.
    std::vector<std::string> texts(kToyVocabulary);
    for (std::uint32_t t = 3; t < kToyVocabulary; ++t) {
      texts[t] = static_cast<char>('a' + (t - 3) % 26);
    }
    texts_ = std::make_shared<const TokenTexts>(std::move(texts), Tokens{kToyEndToken},
                                                /*adds_space_prefix=*/false);
    open({.metrics = metrics_});
  }

  // The error in the server's reply to a prompt; empty if it was accepted.
  static std::optional<Errc> ask(RawClient& client, const wire::Prefill& prompt) {
    EXPECT_TRUE(client.send(prompt));
    const auto heard = std::exchange(client.heard, {});
    if (heard.empty()) return std::nullopt;
    EXPECT_EQ(heard.size(), 1u);
    const auto* report = std::get_if<wire::ErrorReport>(&heard[0]);
    return report != nullptr ? std::optional(report->code) : std::nullopt;
  }
  std::uint64_t refused(Refusal why) const {
    return metrics_->refusals[static_cast<std::size_t>(why)].value();
  }
};

// Parsing delays everyone, even if the mistake is at the end of the text.
TEST_F(ConstrainedRequestsTest, ChargesInvalidGrammarsToTheirIdentity) {
  RawClient greedy(*loop_, {.id = 50, .context_count = kContext, .identity = "greedy"},
                   [this] { return now_; });
  const wire::Prefill wrong{
      .tokens = {5, 6},
      .constraints = {.grammar = "root ::= \"" + std::string(60'000, 'a') + "\" [z-a]"}};
  std::uint64_t read = 0;
  std::optional<Errc> code = ask(greedy, wrong);
  for (; code == Errc::io && read < 200; ++read) code = ask(greedy, wrong);
  EXPECT_EQ(code, Errc::refused);
  EXPECT_GT(read, 5u);
  EXPECT_EQ(refused(Refusal::invalid), read);
  EXPECT_EQ(refused(Refusal::grammars), 1u) << "refused over its budget, not as invalid";

  RawClient modest(*loop_, {.id = 51, .context_count = kContext, .identity = "modest"},
                   [this] { return now_; });
  const wire::Prefill right{.tokens = {5, 6},
                            .constraints = {.answer_begin = 2, .grammar = "root ::= [a-m]*"}};
  EXPECT_EQ(ask(modest, right), std::nullopt);
  run_until_idle();
  EXPECT_EQ(modest.verdict_count, 1u);
  now_ += 1min;
  EXPECT_EQ(ask(greedy, right), std::nullopt);
  run_until_idle();
  EXPECT_EQ(greedy.verdict_count, 1u);
}

// With an answer that begins after the known tokens, drafts would follow another distribution than
// plain answers.
TEST_F(ConstrainedRequestsTest, RefusesAnswerBeginBeyondGivenTokens) {
  RawClient client(*loop_, {.id = 50, .context_count = kContext}, [this] { return now_; });
  wire::Prefill prompt{.tokens = {5, 6, 7},
                       .constraints = {.answer_begin = 4, .presence_penalty = 1.0f}};
  EXPECT_EQ(ask(client, prompt), Errc::protocol);
  prompt.constraints.answer_begin = 3;
  EXPECT_EQ(ask(client, prompt), std::nullopt);
  run_until_idle();
  ASSERT_EQ(client.verdict_count, 1u);
  client.heard.clear();
  // Offline tokens must belong to the answer, or they are dropped.
  wire::Prefill more{.base_length = 4,
                     .tokens = {8, 9, 10},
                     .provisional_count = 2,
                     .constraints = {.answer_begin = 6, .presence_penalty = 1.0f}};
  EXPECT_EQ(ask(client, more), Errc::protocol);
  EXPECT_EQ(refused(Refusal::invalid), 2u);
  more.constraints.answer_begin = 5;
  EXPECT_EQ(ask(client, more), std::nullopt);
  run_until_idle();
  EXPECT_EQ(client.verdict_count, 2u);
}

}  // namespace
}  // namespace edgedraft::server
