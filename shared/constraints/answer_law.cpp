#include "shared/constraints/answer_law.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace edgedraft {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
// Sets of allowed tokens that are kept, of one bit a token.
constexpr std::size_t kAllowedSetsMax = 64;

}  // namespace

Result<AnswerLaw> AnswerLaw::make(Constraints constraints,
                                  std::shared_ptr<const TokenTexts> texts) {
  for (const Constraints::Bias& bias : constraints.biases) {
    if (bias.token >= texts->count()) {
      return Error{Errc::usage, "a bias is for token " + std::to_string(bias.token) +
                                    ", and the vocabulary has " + std::to_string(texts->count())};
    }
  }
  AnswerLaw law(std::move(constraints), std::move(texts));
  if (law.constraints_.grammar.empty()) return law;
  auto grammar = Grammar::parse(law.constraints_.grammar);
  if (!grammar) return grammar.error();
  law.automaton_.emplace(std::make_shared<const Grammar>(*std::move(grammar)));
  return law;
}

bool AnswerLaw::changes_logits() const {
  return automaton_ || !constraints_.biases.empty() || constraints_.presence_penalty != 0.0f ||
         constraints_.frequency_penalty != 0.0f;
}

void AnswerLaw::apply(std::span<const std::uint32_t> answer, std::span<float> logits) {
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
  if (automaton_) apply_grammar(answer, logits);
}

void AnswerLaw::apply_grammar(std::span<const std::uint32_t> answer, std::span<float> logits) {
  const GrammarAutomaton::State state = state_behind(answer);
  const std::vector<bool>& allowed = allowed_in(state, answer.empty());
  // An answer that has left the grammar, as text that was given may, can only end.
  const bool may_end =
      automaton_->accepts(state) || std::ranges::find(allowed, true) == allowed.end();
  // A head may have more rows than the vocabulary has tokens.
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (token < allowed.size() && allowed[token]) continue;
    const bool ends = may_end && std::ranges::find(texts_->ends(), token) != texts_->ends().end();
    if (!ends) logits[token] = kForbidden;
  }
  if (std::ranges::any_of(logits, [](float l) { return std::isfinite(l); })) return;
  // A drafter that knows a part of the vocabulary may know none of what is allowed.
  const auto one = std::ranges::find(allowed, true);
  const auto index = static_cast<std::size_t>(one - allowed.begin());
  if (one != allowed.end() && index < logits.size()) {
    logits[index] = 0.0f;
  } else {
    logits[texts_->ends().empty() ? 0 : texts_->ends().front()] = 0.0f;
  }
}

std::string_view AnswerLaw::text_at(std::span<const std::uint32_t> answer,
                                    std::size_t index) const {
  std::string_view text = texts_->text(answer[index]);
  if (index == 0 && texts_->adds_space_prefix() && text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

GrammarAutomaton::State AnswerLaw::state_behind(std::span<const std::uint32_t> answer) {
  const auto common =
      static_cast<std::size_t>(std::ranges::mismatch(read_, answer).in1 - read_.begin());
  read_.resize(common);
  states_.resize(common);
  for (std::size_t i = common; i < answer.size(); ++i) {
    GrammarAutomaton::State state = i == 0 ? automaton_->start() : states_[i - 1];
    for (const char byte : text_at(answer, i)) {
      state = automaton_->next(state, static_cast<std::uint8_t>(byte));
    }
    read_.push_back(answer[i]);
    states_.push_back(state);
  }
  return states_.empty() ? automaton_->start() : states_.back();
}

// Goes through the tree of all tokens' bytes, and around what no text begins with.
const std::vector<bool>& AnswerLaw::allowed_in(GrammarAutomaton::State state, bool at_start) {
  const bool skips_space = at_start && texts_->adds_space_prefix();
  const std::pair key(state, skips_space);
  if (const auto known = allowed_.find(key); known != allowed_.end()) return known->second;
  if (allowed_.size() >= kAllowedSetsMax) allowed_.clear();
  std::vector<bool> allowed(texts_->count());
  const auto nodes = texts_->nodes();
  std::vector<GrammarAutomaton::State> path{state};  // behind each byte so far
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTexts::Node& node = nodes[i];
    path.resize(node.depth);
    const bool skipped = skips_space && node.depth == 1 && node.byte == ' ';
    const GrammarAutomaton::State next =
        skipped ? path.back() : automaton_->next(path.back(), node.byte);
    if (next == GrammarAutomaton::kDead) {
      i += node.size;
      continue;
    }
    path.push_back(next);
    // A space alone would be no text at all, again and again.
    if (!skipped) {
      for (std::uint32_t t = 0; t < node.token_count; ++t) {
        allowed[texts_->tokens()[node.first_token + t]] = true;
      }
    }
    ++i;
  }
  return allowed_.emplace(key, std::move(allowed)).first->second;
}

bool AnswerLaw::stops(std::span<const std::uint32_t> answer) const {
  if (constraints_.stops.empty() || answer.empty()) return false;
  std::size_t longest = 0;
  for (const std::string& stop : constraints_.stops) longest = std::max(longest, stop.size());
  // The last token's text, and as much before it as a stop that it completes may take.
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
