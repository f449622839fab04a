#include "shared/constraints/constraint_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace edgedraft {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
// Steps that each read token adds to the automaton's budget, so that rereading a text after a
// clearing never runs out.
constexpr std::uint64_t kStepsAToken = 64;

}  // namespace

Result<ConstraintFilter> ConstraintFilter::make(Constraints constraints,
                                                std::shared_ptr<const TokenTexts> texts,
                                                std::shared_ptr<GrammarTokens> grammar) {
  for (const Constraints::Bias& bias : constraints.biases) {
    if (bias.token >= texts->count()) {
      return Error{Errc::usage, "the bias for token " + std::to_string(bias.token) +
                                    " is outside the vocabulary of " +
                                    std::to_string(texts->count()) + " tokens"};
    }
  }
  ConstraintFilter filter(std::move(constraints), std::move(texts));
  if (filter.constraints_.grammar.empty()) return filter;
  filter.grammar_ = std::move(grammar);
  if (filter.grammar_) return filter;
  auto parsed = Grammar::parse(filter.constraints_.grammar);
  if (!parsed) return parsed.error();
  filter.grammar_ = std::make_shared<GrammarTokens>(*std::move(parsed), filter.texts_);
  return filter;
}

bool ConstraintFilter::changes_logits() const {
  return grammar_ || !constraints_.biases.empty() || constraints_.presence_penalty != 0.0f ||
         constraints_.frequency_penalty != 0.0f;
}

void ConstraintFilter::apply(std::span<const std::uint32_t> answer, std::span<float> logits) {
  if (constraints_.presence_penalty != 0.0f || constraints_.frequency_penalty != 0.0f) {
    std::vector<std::uint32_t> sorted(answer.begin(), answer.end());
    std::ranges::sort(sorted);
    for (auto first = sorted.begin(); first != sorted.end();) {
      const auto last = std::upper_bound(first, sorted.end(), *first);
      logits[*first] -= constraints_.presence_penalty +
                        constraints_.frequency_penalty * static_cast<float>(last - first);
      first = last;
    }
  }
  for (const Constraints::Bias& bias : constraints_.biases) {
    if (bias.token < logits.size()) logits[bias.token] += bias.bias;
  }
  if (grammar_) apply_grammar(answer, logits);
}

ConstraintFilter::Allowed ConstraintFilter::allowed_behind(std::span<const std::uint32_t> answer) {
  const GrammarAutomaton::State state = state_behind(answer);
  const bool skips_space = answer.empty() && texts_->adds_space_prefix();
  const bool accepts = grammar_->automaton().accepts(state);
  const std::vector<bool>& allowed = grammar_->allowed_in(state, skips_space);
  // An answer outside the grammar, as given text may be, can only end.
  const bool may_end = accepts || std::ranges::find(allowed, true) == allowed.end();
  return {.tokens = allowed, .may_end = may_end};
}

bool ConstraintFilter::ends(std::size_t token) const {
  return std::ranges::find(texts_->ends(), token) != texts_->ends().end();
}

std::vector<bool> ConstraintFilter::allowed(std::span<const std::uint32_t> answer,
                                            std::span<const std::uint32_t> tokens) {
  std::vector<bool> may(tokens.size(), true);
  if (!grammar_) return may;
  const Allowed allowed = allowed_behind(answer);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint32_t token = tokens[i];
    may[i] = (token < allowed.tokens.size() && allowed.tokens[token]) ||
             (allowed.may_end && ends(token));
  }
  return may;
}

void ConstraintFilter::apply_grammar(std::span<const std::uint32_t> answer,
                                     std::span<float> logits) {
  const auto [allowed, may_end] = allowed_behind(answer);
  // A head may have more rows than the vocabulary has tokens.
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (token < allowed.size() && allowed[token]) continue;
    if (!may_end || !ends(token)) logits[token] = kForbidden;
  }
  if (std::ranges::any_of(logits, [](float l) { return std::isfinite(l); })) return;
  // A drafter with a reduced vocabulary may know none of the allowed tokens.
  const auto one = std::ranges::find(allowed, true);
  const auto index = static_cast<std::size_t>(one - allowed.begin());
  if (one != allowed.end() && index < logits.size()) {
    logits[index] = 0.0f;
  } else {
    logits[texts_->ends().empty() ? 0 : texts_->ends().front()] = 0.0f;
  }
}

std::string_view ConstraintFilter::text_at(std::span<const std::uint32_t> answer,
                                           std::size_t index) const {
  std::string_view text = texts_->text(answer[index]);
  if (index == 0 && texts_->adds_space_prefix() && text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

GrammarAutomaton::State ConstraintFilter::state_behind(std::span<const std::uint32_t> answer) {
  GrammarAutomaton& automaton = grammar_->automaton();
  const auto common =
      static_cast<std::size_t>(std::ranges::mismatch(read_, answer).in1 - read_.begin());
  const bool kept_holds = common >= kept_.count;
  if (!kept_holds) kept_ = {};
  if (states_.empty() || !kept_holds || clearings_ != automaton.clearings()) {
    begin_again();
  } else {
    read_.resize(common);
    states_.resize(common - kept_.count + 1);
  }
  // Branches of a draft tree share all but their last tokens: keep a state within the shared part.
  constexpr std::size_t kBranchTokens = 32;
  std::size_t no_room_at = answer.size();
  std::uint32_t tries = 0;
  while (read_.size() < answer.size()) {
    const std::size_t at = read_.size();
    GrammarAutomaton::State state = states_.back();
    automaton.allow_steps(kStepsAToken);
    for (const char byte : text_at(answer, at)) {
      state = automaton.next(state, static_cast<std::uint8_t>(byte));
    }
    if (state == GrammarAutomaton::kNoRoom) {
      tries = no_room_at == at ? tries + 1 : 1;
      no_room_at = at;
      if (tries <= 2) {
        keep(tries == 1 ? std::min(kBranchTokens, states_.size() - 1) : 0);
        continue;
      }
      state = GrammarAutomaton::kDead;  // it does not fit even alone
    }
    read_.push_back(answer[at]);
    states_.push_back(state);
  }
  return states_.back();
}

void ConstraintFilter::keep(std::size_t tokens_back) {
  GrammarAutomaton& automaton = grammar_->automaton();
  kept_ = {.count = read_.size() - tokens_back,
           .place = automaton.place_of(states_[states_.size() - 1 - tokens_back])};
  automaton.clear();
  begin_again();
}

void ConstraintFilter::begin_again() {
  GrammarAutomaton& automaton = grammar_->automaton();
  const auto enter = [&] {
    return kept_.count == 0 ? automaton.start() : automaton.enter(kept_.place);
  };
  GrammarAutomaton::State state = enter();
  if (state == GrammarAutomaton::kNoRoom) {  // other answers have filled the tables
    automaton.clear();
    state = enter();
  }
  // It does not fit even alone.
  if (state == GrammarAutomaton::kNoRoom) state = GrammarAutomaton::kDead;
  clearings_ = automaton.clearings();
  read_.resize(kept_.count);
  states_.assign(1, state);
}

bool ConstraintFilter::stops(std::span<const std::uint32_t> answer) const {
  if (constraints_.stops.empty() || answer.empty()) return false;
  std::size_t longest = 0;
  for (const std::string& stop : constraints_.stops) longest = std::max(longest, stop.size());
  // The last token's text, plus as much before it as a stop ending there may need.
  const std::size_t last = text_at(answer, answer.size() - 1).size();
  std::vector<std::size_t> chosen;
  std::size_t bytes = 0;
  for (std::size_t i = answer.size(); i > 0 && bytes < last + longest - 1; --i) {
    chosen.push_back(i - 1);
    bytes += text_at(answer, i - 1).size();
  }
  std::string tail;
  for (auto i = chosen.rbegin(); i != chosen.rend(); ++i) tail += text_at(answer, *i);
  return std::ranges::any_of(constraints_.stops, [&](const std::string& stop) {
    const std::size_t found = tail.rfind(stop);
    return found != std::string::npos && found + stop.size() > tail.size() - last;
  });
}

}  // namespace edgedraft
