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

namespace edgedraft {

// The grammars that answers use and those that were used last, by identity: what one has asked for
// must not show in what others wait for. Reading and searching a grammar takes the one computing
// thread's time, most of it when the grammar is new; an identity that took too much of it brings no
// further ones for a while. Those that are known are used on: GrammarTokens bounds what a token of
// an answer may add, and an honest schema's long text in a large vocabulary may well take more than
// comes back.
class KnownGrammars {
 public:
  // In steps of automata: what an identity may take at once, and what it gets back per second, a
  // fifth of the thread's time or so.
  static constexpr double kStepsAtOnce = 1u << 22;
  static constexpr double kStepsPerSecond = 1u << 20;
  // What it takes to read a text, whether or not it is a grammar. A short one may unfold into
  // kGrammarElementsMax elements.
  static constexpr double kStepsAText = 1u << 15;
  static constexpr double kStepsAByte = 2.0;
  // Kept beside those that answers use; each may take some megabytes.
  static constexpr std::size_t kUnusedMax = 16;

  explicit KnownGrammars(std::function<Instant()> now) : now_(std::move(now)), settled_(now_()) {}

  // What was found of that identity's grammar; null if it is not known.
  std::shared_ptr<GrammarTokens> find(const std::string& identity, const std::string& text);
  // Takes what reading a text of so many bytes costs from the identity's steps.
  // Errors    refused: its grammars have taken too much time
  Result<void> afford_another(const std::string& identity, std::size_t bytes);
  void add(const std::string& identity, const std::string& text,
           std::shared_ptr<GrammarTokens> tokens);
  // Drops grammars that no answer uses any more until kUnusedMax of them are left: each time the
  // least recently used one of the identity that has the most.
  void forget_unused();

  std::size_t count() const { return known_.size(); }

 private:
  struct Known {
    std::string identity;
    std::string text;
    std::shared_ptr<GrammarTokens> tokens;
    std::uint64_t steps_charged = 0;

    // By an answer, which may still have to search it.
    bool used() const { return tokens.use_count() > 1; }
  };
  // Holds what was searched since the last time against what came back meanwhile, so that long use
  // within that leaves no debt.
  void settle();
  void charge(Known& known);
  void charge(const std::string& identity, double steps);

  std::function<Instant()> now_;
  std::list<Known> known_;  // the last comes first
  // By identity; below 0, it has taken more than it may. Any other has all of kStepsAtOnce.
  std::map<std::string, double> steps_left_;
  Instant settled_;
};

}  // namespace edgedraft
