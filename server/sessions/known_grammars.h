#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/constraints/grammar_tokens.h"

namespace edgedraft {

// The grammars that were used last, by identity: what one has asked for must not show in what
// others wait for. Searching a grammar takes the one computing thread's time, most of it when the
// grammar is new; who has taken too much of that brings no further ones for a while.
class KnownGrammars {
 public:
  // In steps of automata: what an identity may take at once, and what it gets back per second, a
  // fifth of the thread's time or so.
  static constexpr double kStepsAtOnce = 1u << 22;
  static constexpr double kStepsPerSecond = 1u << 20;

  explicit KnownGrammars(std::function<Instant()> now) : now_(std::move(now)) {}

  // What was found of that identity's grammar; null if it is not known.
  std::shared_ptr<GrammarTokens> find(const std::string& identity, const std::string& text);
  // Errors    refused: its grammars have taken too much time
  Result<void> afford_another(const std::string& identity);
  void add(const std::string& identity, const std::string& text,
           std::shared_ptr<GrammarTokens> tokens);

 private:
  struct Known {
    std::string identity;
    std::string text;
    std::shared_ptr<GrammarTokens> tokens;
    std::uint64_t steps_charged = 0;
  };
  // Below 0: it has taken more than it may. An identity without one has all of kStepsAtOnce.
  struct Account {
    double steps_left;
    Instant at;
  };
  void charge(Known& known);

  std::function<Instant()> now_;
  std::list<Known> known_;  // the last comes first
  std::map<std::string, Account> accounts_;
};

}  // namespace edgedraft
