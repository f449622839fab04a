#include "client/conformance/subject.h"

#include <algorithm>

#include "client/conformance/check.h"
#include "shared/base/random.h"

namespace edgedraft::conformance {
namespace {

constexpr std::uint32_t kPromptTokens = 12;
constexpr std::uint64_t kPromptsMax = 8;
// Shorter answers leave no position to draft for.
constexpr std::uint32_t kAnswerTokensMin = 16;

}  // namespace

Session Subject::session() {
  return Session(address_, vocabulary_count());
}

std::uint32_t Subject::vocabulary_count() {
  if (vocabulary_count_) return *vocabulary_count_;
  Session session(address_);
  const auto accepts = [&](std::uint32_t token) {
    session.prefill({token});
    const auto refused = session.answered();
    require(!refused || refused->code == Errc::protocol, [&] {
      return "a prompt of token " + std::to_string(token) + " is refused: " + refused->message;
    });
    return !refused;
  };
  std::uint32_t accepted = 0;
  std::uint32_t refused = kTokenIdEnd;
  require(accepts(accepted), "token 0 is refused");
  while (refused - accepted > 1) {
    const std::uint32_t middle = accepted + (refused - accepted) / 2;
    (accepts(middle) ? accepted : refused) = middle;
  }
  vocabulary_count_ = refused;
  return refused;
}

void Subject::find_prompt() {
  if (!text_.empty()) return;
  Session session = this->session();
  require(session.welcome().context_count >= kPromptTokens + kAnswerTokens,
          "the context holds fewer than 36 tokens");
  for (std::uint64_t seed = 1; seed <= kPromptsMax; ++seed) {
    Random random(seed);
    Tokens prompt(kPromptTokens);
    for (std::uint32_t& token : prompt) {
      token = static_cast<std::uint32_t>(random.below(vocabulary_count()));
    }
    session.prefill(prompt, {.run = {.credit = kPromptTokens + kAnswerTokens}});
    session.run_to(kPromptTokens + kAnswerTokens);
    if (session.length() <= text_.size()) continue;
    prompt_ = prompt;
    text_ = session.text();
    if (text_.size() == kPromptTokens + kAnswerTokens) return;
  }
  if (text_.size() >= kPromptTokens + kAnswerTokensMin) return;
  text_.clear();
  throw CheckSkipped("the answers to random prompts end too soon");
}

const Tokens& Subject::prompt() {
  find_prompt();
  return prompt_;
}

const Tokens& Subject::text() {
  find_prompt();
  return text_;
}

Tokens Subject::answer(std::size_t first, std::size_t count) {
  const auto begin = text().begin() + static_cast<std::ptrdiff_t>(prompt_.size() + first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

std::uint32_t Subject::other_than(std::size_t position) {
  return (text()[position] + 1) % vocabulary_count();
}

Terms Subject::whole_run(wire::Hold hold) {
  return {.run = {.credit = static_cast<std::uint32_t>(text().size()), .hold = hold}};
}

void Subject::expect_reference(const Session& session) {
  const Tokens expected = first_of(text(), std::min<std::size_t>(text().size(), session.length()));
  require(session.text() == expected, [&] {
    return difference(session.text(), expected) +
           (session.welcome().arithmetic.empty() ? "; `arithmetic` is empty: near ties may differ"
                                                 : "");
  });
}

void Subject::expect_service(Session& session) {
  session.prefill(prompt(), whole_run());
  session.run_to(static_cast<std::uint32_t>(text().size()));
  expect_reference(session);
  require(session.length() == text().size(), "the answer ends too soon");
}

std::string difference(const Tokens& actual, const Tokens& expected) {
  const auto [at, of] =
      std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
  const std::string position = "position " + std::to_string(at - actual.begin());
  if (at == actual.end() || of == expected.end())
    return "the answers' lengths differ at " + position;
  return "token " + std::to_string(*at) + " instead of " + std::to_string(*of) + " at " + position;
}

}  // namespace edgedraft::conformance
