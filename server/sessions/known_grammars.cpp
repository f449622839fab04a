#include "server/sessions/known_grammars.h"

#include <algorithm>
#include <iterator>

namespace edgedraft::server {

std::shared_ptr<GrammarTokens> KnownGrammars::find(const std::string& identity,
                                                   const std::string& text) {
  const auto found = std::ranges::find_if(
      known_, [&](const Known& one) { return one.identity == identity && one.text == text; });
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return found->tokens;
}

Result<void> KnownGrammars::afford_another(const std::string& identity, std::size_t bytes) {
  settle();
  const auto left = steps_left_.find(identity);
  if (left == steps_left_.end() || left->second >= 0.0) {
    charge(identity, kStepsAText + kStepsAByte * static_cast<double>(bytes));
    return boost::system::in_place_value;
  }
  return Error{
      Errc::refused,
      "this client's grammars have taken too much of the server's time: try again in a few "
      "seconds, or with a simpler grammar"};
}

void KnownGrammars::add(const std::string& identity, const std::string& text,
                        std::shared_ptr<GrammarTokens> tokens) {
  known_.push_front({.identity = identity, .text = text, .tokens = std::move(tokens)});
  forget_unused();
}

void KnownGrammars::forget_unused() {
  auto count = static_cast<std::size_t>(
      std::ranges::count_if(known_, [](const Known& one) { return !one.used(); }));
  if (count <= kUnusedMax) return;
  std::map<std::string, std::size_t> unused;  // by identity
  for (const Known& one : known_) {
    if (!one.used()) ++unused[one.identity];
  }
  for (; count > kUnusedMax; --count) {
    const std::size_t most = std::ranges::max_element(unused, {}, [](const auto& entry) {
                               return entry.second;
                             })->second;
    const auto oldest = std::find_if(known_.rbegin(), known_.rend(), [&](const Known& one) {
      return !one.used() && unused.at(one.identity) == most;
    });
    charge(*oldest);
    --unused.at(oldest->identity);
    known_.erase(std::prev(oldest.base()));
  }
}

void KnownGrammars::settle() {
  for (Known& one : known_) charge(one);
  const Instant now = now_();
  const double back = kStepsPerSecond * seconds(now - std::exchange(settled_, now));
  for (auto& [identity, left] : steps_left_) left += back;
  std::erase_if(steps_left_, [](const auto& entry) { return entry.second >= kStepsAtOnce; });
}

void KnownGrammars::charge(Known& known) {
  const std::uint64_t steps = known.tokens->steps_taken();
  const auto taken = static_cast<double>(steps - std::exchange(known.steps_charged, steps));
  if (taken > 0.0) charge(known.identity, taken);
}

void KnownGrammars::charge(const std::string& identity, double steps) {
  steps_left_.try_emplace(identity, kStepsAtOnce).first->second -= steps;
}

}  // namespace edgedraft::server
