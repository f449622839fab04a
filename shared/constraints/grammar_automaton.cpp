#include "shared/constraints/grammar_automaton.h"

#include <algorithm>
#include <set>

namespace edgedraft {

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {
  frames_.push_back({});  // kBottom
  states_.emplace_back();
  states_[kDead].next = std::make_unique<std::array<State, 256>>();
  states_[kDead].next->fill(kDead);
  Closure closure;
  std::vector<std::uint32_t> open;
  for (const std::uint32_t sequence : grammar_->rules()[grammar_->root()]) {
    open.push_back(frame(sequence, 0, kBottom));
  }
  close(closure, std::move(open));
  start_ = intern(std::move(closure));
}

// kUnknown beyond the bounds.
std::uint32_t GrammarAutomaton::frame(std::uint32_t sequence, std::uint32_t position,
                                      std::uint32_t parent) {
  const auto known = frame_ids_.find({sequence, position, parent});
  if (known != frame_ids_.end()) return known->second;
  const std::uint32_t depth = frames_[parent].depth + 1;
  if (frames_.size() >= kFramesMax || depth > kDepthMax) return kUnknown;
  const auto id = static_cast<std::uint32_t>(frames_.size());
  frames_.push_back({.sequence = sequence, .position = position, .parent = parent, .depth = depth});
  frame_ids_.emplace(std::array{sequence, position, parent}, id);
  return id;
}

void GrammarAutomaton::close(Closure& closure, std::vector<std::uint32_t> open) {
  std::set<std::uint32_t> seen;
  std::set<std::pair<std::uint32_t, std::uint32_t>> expanded;  // rules, and what stands behind each
  while (!open.empty()) {
    if (++steps_ > kStepsMax) return;
    const std::uint32_t id = open.back();
    open.pop_back();
    if (id == kUnknown || !seen.insert(id).second) continue;
    if (seen.size() > kFramesAStateMax) return;
    if (id == kBottom) {
      closure.accepts = true;
      continue;
    }
    const Frame at = frames_[id];
    const Grammar::Sequence& sequence = grammar_->sequences()[at.sequence];
    if (at.position == sequence.size()) {
      open.push_back(at.parent);
      continue;
    }
    const Grammar::Element& element = sequence[at.position];
    if (!element.is_rule) {
      closure.frames.push_back(id);
      continue;
    }
    // The last element has nothing to come back to, so repetitions do not grow.
    const std::uint32_t behind = at.position + 1 == sequence.size()
                                     ? at.parent
                                     : frame(at.sequence, at.position + 1, at.parent);
    if (behind == kUnknown || !expanded.emplace(element.index, behind).second) continue;
    for (const std::uint32_t alternative : grammar_->rules()[element.index]) {
      open.push_back(frame(alternative, 0, behind));
    }
  }
}

GrammarAutomaton::State GrammarAutomaton::intern(Closure closure) {
  if (closure.frames.empty() && !closure.accepts) return kDead;
  std::ranges::sort(closure.frames);
  std::pair key(std::move(closure.frames), closure.accepts);
  const auto known = state_ids_.find(key);
  if (known != state_ids_.end()) return known->second;
  if (states_.size() >= kStatesMax) return kDead;
  const auto id = static_cast<State>(states_.size());
  states_.push_back({.frames = key.first, .accepts = key.second});
  state_ids_.emplace(std::move(key), id);
  return id;
}

GrammarAutomaton::State GrammarAutomaton::next(State state, std::uint8_t byte) {
  if (!states_[state].next) {
    states_[state].next = std::make_unique<std::array<State, 256>>();
    states_[state].next->fill(kUnknown);
  }
  const State known = (*states_[state].next)[byte];
  if (known != kUnknown) return known;
  if (steps_ > kStepsMax) return kDead;
  Closure closure;
  std::vector<std::uint32_t> open;
  // By number: frames_ grows.
  const std::vector<std::uint32_t> frames = states_[state].frames;
  for (const std::uint32_t id : frames) {
    const Frame at = frames_[id];
    const Grammar::Element& element = grammar_->sequences()[at.sequence][at.position];
    if (!grammar_->byte_sets()[element.index][byte]) continue;
    open.push_back(frame(at.sequence, at.position + 1, at.parent));
  }
  close(closure, std::move(open));
  const State found = intern(std::move(closure));
  (*states_[state].next)[byte] = found;
  return found;
}

}  // namespace edgedraft
