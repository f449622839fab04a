#include "shared/constraints/grammar_automaton.h"

#include <algorithm>
#include <set>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

// Frames of a state that are tried on a byte for the price of one step.
constexpr std::size_t kFramesAStep = 32;
// Frames per step that are looked up in state_behind_, which compares them with a dozen others.
constexpr std::size_t kComparedAStep = 16;
// For the initial state, regardless of the budget: without that state, a grammar would accept no
// text.
constexpr std::uint64_t kStepsAStart = 4 * GrammarAutomaton::kFramesAStateMax;
// Overhead of a map key beside its frames, in frames.
constexpr std::size_t kKeyFrames = 24;

}  // namespace

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {
  clear();
  clearings_ = 0;
}

void GrammarAutomaton::clear() {
  ++clearings_;
  const std::uint64_t steps_before = std::exchange(steps_left_, kStepsAStart);
  frames_.assign(1, {});  // kBottom
  frame_ids_.clear();
  states_.clear();
  state_ids_.clear();
  state_behind_.clear();
  frames_held_ = 0;
  states_.emplace_back();
  states_[kDead].next = std::make_unique<std::array<std::uint16_t, 256>>();
  states_[kDead].next->fill(kDead);
  Closure closure;
  std::vector<std::uint32_t> open;
  for (const std::uint32_t sequence : grammar_->rules()[grammar_->root()]) {
    open.push_back(frame(sequence, 0, kBottom, closure));
  }
  close(closure, std::move(open));
  start_ = intern(std::move(closure));
  if (start_ == kNoRoom) start_ = kDead;  // there will never be more space
  steps_left_ = steps_before - std::min(steps_before, kStepsAStart - steps_left_);
}

GrammarAutomaton::Place GrammarAutomaton::place_of(State state) {
  EDGEDRAFT_CHECK(state < states_.size());
  Place place{.frames = {Frame{}}, .before = {}, .accepts = states_[state].accepts};
  // Parents have smaller numbers than their children, so one pass in order finds all.
  std::set<std::uint32_t> needed;
  for (std::uint32_t id : states_[state].frames) {
    while (id != kBottom && needed.insert(id).second) id = frames_[id].parent;
  }
  std::map<std::uint32_t, std::uint32_t> index_of{{kBottom, kBottom}};
  for (const std::uint32_t id : needed) {
    Frame copy = frames_[id];
    copy.parent = index_of.at(copy.parent);
    index_of.emplace(id, static_cast<std::uint32_t>(place.frames.size()));
    place.frames.push_back(copy);
  }
  for (const std::uint32_t id : states_[state].frames) place.before.push_back(index_of.at(id));
  take_steps(place.frames.size());
  return place;
}

GrammarAutomaton::State GrammarAutomaton::enter(const Place& place) {
  if (!take_steps(place.frames.size())) return kDead;
  Closure closure{.frames = {}, .accepts = place.accepts};
  std::vector<std::uint32_t> ids{kBottom};
  for (std::size_t i = 1; i < place.frames.size(); ++i) {
    const Frame& at = place.frames[i];
    ids.push_back(frame(at.sequence, at.position, ids[at.parent], closure));
    if (closure.crowded) return kNoRoom;
  }
  for (const std::uint32_t index : place.before) closure.frames.push_back(ids[index]);
  return intern(std::move(closure));
}

GrammarAutomaton::State GrammarAutomaton::clear_but(State state) {
  const Place place = place_of(state);
  clear();
  return enter(place);
}

bool GrammarAutomaton::take_steps(std::uint64_t count) {
  const std::uint64_t taken = std::min(count, steps_left_);
  steps_left_ -= taken;
  steps_taken_ += taken;
  return taken == count;
}

void GrammarAutomaton::allow_steps(std::uint64_t steps) {
  steps_left_ = std::min(steps_left_ + steps, kStepsMax);
}

std::uint32_t GrammarAutomaton::frame(std::uint32_t sequence, std::uint32_t position,
                                      std::uint32_t parent, Closure& closure) {
  const auto known = frame_ids_.find({sequence, position, parent});
  if (known != frame_ids_.end()) return known->second;
  const std::uint32_t depth = frames_[parent].depth + 1;
  if (depth > kDepthMax) return kNoFrame;
  if (frames_.size() >= kFramesMax) {
    closure.crowded = true;
    return kNoFrame;
  }
  const auto id = static_cast<std::uint32_t>(frames_.size());
  frames_.push_back({.sequence = sequence, .position = position, .parent = parent, .depth = depth});
  frame_ids_.emplace(std::array{sequence, position, parent}, id);
  return id;
}

void GrammarAutomaton::close(Closure& closure, std::vector<std::uint32_t> open) {
  std::set<std::uint32_t> seen;
  std::set<std::pair<std::uint32_t, std::uint32_t>> expanded;  // rules, each with its next frame
  while (!open.empty()) {
    if (!take_steps(1)) {
      closure.exhausted = true;
      return;
    }
    const std::uint32_t id = open.back();
    open.pop_back();
    if (id == kNoFrame || !seen.insert(id).second) continue;
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
    // The last element needs no frame, so repetitions do not grow.
    const std::uint32_t behind = at.position + 1 == sequence.size()
                                     ? at.parent
                                     : frame(at.sequence, at.position + 1, at.parent, closure);
    if (behind == kNoFrame || !expanded.emplace(element.index, behind).second) continue;
    for (const std::uint32_t alternative : grammar_->rules()[element.index]) {
      open.push_back(frame(alternative, 0, behind, closure));
    }
  }
}

GrammarAutomaton::State GrammarAutomaton::intern(Closure closure) {
  if (closure.crowded) return kNoRoom;
  if (closure.frames.empty() && !closure.accepts) return kDead;
  std::ranges::sort(closure.frames);
  std::pair key(std::move(closure.frames), closure.accepts);
  const auto known = state_ids_.find(key);
  if (known != state_ids_.end()) return known->second;
  if (states_.size() >= kStatesMax || !hold(2 * key.first.size())) return kNoRoom;
  const auto id = static_cast<State>(states_.size());
  states_.push_back({.frames = key.first, .accepts = key.second});
  state_ids_.emplace(std::move(key), id);
  return id;
}

bool GrammarAutomaton::hold(std::size_t frames) {
  if (frames_held_ + frames > kHeldFramesMax) return false;
  frames_held_ += frames;
  return true;
}

GrammarAutomaton::State GrammarAutomaton::next(State state, std::uint8_t byte) {
  if (state == kNoRoom) return kNoRoom;
  if (!states_[state].next) {
    states_[state].next = std::make_unique<std::array<std::uint16_t, 256>>();
    states_[state].next->fill(kNoRoom);
  }
  const State known = (*states_[state].next)[byte];
  if (known != kNoRoom) return known;
  const std::vector<std::uint32_t>& frames = states_[state].frames;
  if (!take_steps(1 + frames.size() / kFramesAStep)) return kDead;
  std::vector<std::uint32_t> taking;  // frames that accept the byte
  for (const std::uint32_t id : frames) {
    const Frame& at = frames_[id];
    const Grammar::Element& element = grammar_->sequences()[at.sequence][at.position];
    if (grammar_->byte_sets()[element.index][byte]) taking.push_back(id);
  }
  const auto remember = [&](State found) {
    (*states_[state].next)[byte] = static_cast<std::uint16_t>(found);
    return found;
  };
  // Look up before building successors one by one: most bytes lead to a state that another byte has
  // reached.
  if (!take_steps(taking.size() / kComparedAStep)) return kDead;
  if (const auto same = state_behind_.find(taking); same != state_behind_.end()) {
    return remember(same->second);
  }
  if (!take_steps(taking.size())) return kDead;
  Closure closure;
  std::vector<std::uint32_t> open;
  for (const std::uint32_t id : taking) {
    const Frame at = frames_[id];  // a copy: frames_ grows
    open.push_back(frame(at.sequence, at.position + 1, at.parent, closure));
  }
  if (closure.crowded) return kNoRoom;
  close(closure, std::move(open));
  // Do not cache this transition: it is retried when there are steps again.
  if (closure.exhausted) return kDead;
  const State found = intern(std::move(closure));
  if (found != kNoRoom && hold(taking.size() + kKeyFrames)) {
    state_behind_.emplace(std::move(taking), found);
  }
  return remember(found);
}

}  // namespace edgedraft
