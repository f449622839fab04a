#include "server/sessions/known_grammars.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace edgedraft {
namespace {

// Kept beyond the answers that use them; each may take some megabytes.
constexpr std::size_t kGrammarsMax = 16;

}  // namespace

std::shared_ptr<GrammarTokens> KnownGrammars::find(const std::string& identity,
                                                   const std::string& text) {
  const auto found = std::ranges::find_if(
      known_, [&](const Known& one) { return one.identity == identity && one.text == text; });
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return found->tokens;
}

Result<void> KnownGrammars::afford_another(const std::string& identity) {
  for (Known& one : known_) charge(one);
  const Instant now = now_();
  for (auto& [owner, account] : accounts_) {
    account.steps_left += kStepsPerSecond * std::chrono::duration<double>(now - account.at).count();
    account.at = now;
  }
  std::erase_if(accounts_,
                [](const auto& entry) { return entry.second.steps_left >= kStepsAtOnce; });
  const auto account = accounts_.find(identity);
  if (account == accounts_.end() || account->second.steps_left >= 0.0) {
    return boost::system::in_place_value;
  }
  return Error{Errc::refused,
               "this client's grammars have taken too much of the server's time: try again in some "
               "seconds, or with a simpler grammar"};
}

void KnownGrammars::add(const std::string& identity, const std::string& text,
                        std::shared_ptr<GrammarTokens> tokens) {
  known_.push_front({.identity = identity, .text = text, .tokens = std::move(tokens)});
  if (known_.size() <= kGrammarsMax) return;
  charge(known_.back());
  known_.pop_back();
}

void KnownGrammars::charge(Known& known) {
  const std::uint64_t steps = known.tokens->automaton().steps_taken();
  const auto taken = static_cast<double>(steps - std::exchange(known.steps_charged, steps));
  if (taken == 0.0) return;
  accounts_.try_emplace(known.identity, kStepsAtOnce, now_()).first->second.steps_left -= taken;
}

}  // namespace edgedraft
