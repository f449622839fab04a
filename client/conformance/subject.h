#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "client/conformance/session.h"

namespace edgedraft::conformance {

// Tokens of the reference answer.
inline constexpr std::uint32_t kAnswerTokens = 24;

// The server under test and what earlier checks learned about it.
class Subject {
 public:
  explicit Subject(ServerAddress address) : address_(std::move(address)) {}

  const ServerAddress& address() const { return address_; }
  Session session();

  // The smallest id that the server refuses, found by bisection; kTokenIdEnd if it accepts all.
  std::uint32_t vocabulary_count();
  // A prompt of random tokens whose greedy answer has kAnswerTokens tokens, or the longest found.
  const Tokens& prompt();
  // The prompt and its greedy answer without drafts.
  const Tokens& text();
  // Tokens first..first + count - 1 of the reference answer.
  Tokens answer(std::size_t first, std::size_t count);
  // A token that differs from text()[position].
  std::uint32_t other_than(std::size_t position);
  // Terms of a run to the end of text().
  Terms whole_run(wire::Hold hold = wire::Hold::none);

  // Fails unless the session's text is the reference's first tokens.
  void expect_reference(const Session& session);
  // Answers the prompt on this connection and compares the result.
  void expect_service(Session& session);

 private:
  void find_prompt();

  ServerAddress address_;
  std::optional<std::uint32_t> vocabulary_count_;
  Tokens prompt_;
  Tokens text_;
};

// Describes the first difference of two texts.
std::string difference(const Tokens& actual, const Tokens& expected);

}  // namespace edgedraft::conformance
