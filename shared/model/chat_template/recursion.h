#pragma once

#include <memory>
#include <utility>

#include "shared/model/chat_template/evaluator.h"

namespace edgedraft::chat {

// Levels of statements and expressions inside each other, through macros too. Bounds the stack:
// a level takes about 2 KiB.
inline constexpr std::size_t kRecursionMax = 256;

class Evaluator::Level {
 public:
  Level(Evaluator& evaluator, int line) : evaluator_(evaluator) {
    if (++evaluator_.level_ <= kRecursionMax) return;
    evaluator_.meter_.fail(line, "macros call each other too deeply");
  }
  ~Level() { --evaluator_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Evaluator& evaluator_;
};

class Evaluator::ScopeGuard {
 public:
  ScopeGuard(Evaluator& evaluator, std::shared_ptr<Scope> parent)
      : evaluator_(evaluator),
        before_(
            std::exchange(evaluator.scope_, std::make_shared<Scope>(Map(), std::move(parent)))) {}
  ~ScopeGuard() { evaluator_.scope_ = std::move(before_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> before_;
};

}  // namespace edgedraft::chat
