#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/constraints/grammar_tokens.h"

namespace edgedraft::server {

// Caches compiled grammars per identity, so that one identity cannot infer from latency what
// another uses: those in use and the most recently used. Compiling and searching runs on the
// compute thread, mostly while the grammar is new. An identity that exceeds its step budget gets no
// new grammars for a while. Known grammars stay usable because GrammarTokens bounds the work per
// token. A legitimate schema with long text and a large vocabulary may exceed the refill rate.
class KnownGrammars {
 public:
  // Automaton steps: burst size and refill per second per identity. The refill is about a fifth of
  // the compute thread.
  static constexpr double kStepsAtOnce = 1u << 22;
  static constexpr double kStepsPerSecond = 1u << 20;
  // Cost of parsing a text, valid or not. A short one may expand to kGrammarElementsMax elements.
  static constexpr double kStepsAText = 1u << 15;
  static constexpr double kStepsAByte = 2.0;
  // Unused grammars kept; each may take a few megabytes.
  static constexpr std::size_t kUnusedMax = 16;

  explicit KnownGrammars(std::function<Instant()> now) : now_(std::move(now)), settled_(now_()) {}

  // Returns the identity's compiled grammar, or null if it is not cached.
  std::shared_ptr<GrammarTokens> find(const std::string& identity, const std::string& text);
  // Charges the identity for parsing a text of `bytes` bytes.
  // Errors    refused: the identity's grammars used up its budget
  Result<void> afford_another(const std::string& identity, std::size_t bytes);
  void add(const std::string& identity, const std::string& text,
           std::shared_ptr<GrammarTokens> tokens);
  // Drops unused grammars until kUnusedMax are left: each time the least recently used one of the
  // identity that holds the most.
  void forget_unused();

  std::size_t count() const { return known_.size(); }

 private:
  struct Known {
    std::string identity;
    std::string text;
    std::shared_ptr<GrammarTokens> tokens;
    std::uint64_t steps_charged = 0;

    // True if an answer uses it and may still search it.
    bool used() const { return tokens.use_count() > 1; }
  };
  // Charges the steps searched since the last call and adds the refill; use within the refill rate
  // leaves no debt.
  void settle();
  void charge(Known& known);
  void charge(const std::string& identity, double steps);

  std::function<Instant()> now_;
  std::list<Known> known_;  // most recently used first
  // Per identity; negative after overuse. An absent identity has kStepsAtOnce.
  std::map<std::string, double> steps_left_;
  Instant settled_;
};

}  // namespace edgedraft::server
