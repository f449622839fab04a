#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "shared/constraints/grammar.h"

namespace edgedraft {

// Matches texts against a grammar byte by byte. Caches transitions, so that a byte becomes a table
// look-up. Tables are bounded: if they are full, the reader clears all but its own state and
// continues, so results do not depend on earlier texts. Texts beyond kDepthMax or kFramesAStateMax
// are rejected, which takes hundreds of nested levels or a very ambiguous grammar. Texts that
// exceed the step budget are rejected, too.
class GrammarAutomaton {
  // Rest of a sequence, linked to the sequences around it.
  struct Frame {
    std::uint32_t sequence;
    std::uint32_t position;
    std::uint32_t parent;  // a frame, or kBottom
    std::uint32_t depth;
  };

 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;  // no text continues like this
  // A state may exist, but the tables are full.
  static constexpr State kNoRoom = 0xFFFF;

  static constexpr std::size_t kStatesMax = 8192;
  static constexpr std::size_t kFramesMax = 1u << 16;
  static constexpr std::size_t kFramesAStateMax = 1u << 14;
  static constexpr std::size_t kHeldFramesMax = 1u << 22;  // total over all states
  static constexpr std::uint32_t kDepthMax = 512;
  static constexpr std::uint64_t kStepsMax = 1u << 22;  // a few tenths of a second

  explicit GrammarAutomaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }
  // kNoRoom leads to kNoRoom.
  State next(State state, std::uint8_t byte);
  // True if the text may end here.
  bool accepts(State state) const { return state != kNoRoom && states_[state].accepts; }

  // A state in portable form, which survives clear().
  struct Place {
    std::vector<Frame> frames;          // parents first; parent is an index into these
    std::vector<std::uint32_t> before;  // indices of frames before a byte
    bool accepts = false;
  };
  Place place_of(State state);
  // Forgets all states.
  void clear();
  // Number of calls of clear().
  std::uint64_t clearings() const { return clearings_; }
  // State of `place`; kNoRoom if the tables are too full, kDead if the steps run out.
  // Requires  cleared since the place was taken
  State enter(const Place& place);
  // Drops all states but one and returns its new number.
  State clear_but(State state);

  // Adds steps to the budget for searches, places and clearing: kStepsMax at first and at most.
  void allow_steps(std::uint64_t steps);
  // If true, the last kDead result may be wrong.
  bool out_of_steps() const { return steps_left_ == 0; }
  std::uint64_t steps_taken() const { return steps_taken_; }

 private:
  static constexpr std::uint32_t kBottom = 0;
  static constexpr std::uint32_t kNoFrame = 0xFFFFFFFFu;

  struct StateData {
    std::vector<std::uint32_t> frames;  // each before a byte, sorted
    bool accepts = false;
    // kNoRoom: unknown.
    std::unique_ptr<std::array<std::uint16_t, 256>> next{};
  };

  // Closure of a state: all frames before their next byte.
  struct Closure {
    std::vector<std::uint32_t> frames;
    bool accepts = false;
    // Incomplete: the tables were full, or the steps used up.
    bool crowded = false;
    bool exhausted = false;
  };
  void close(Closure& closure, std::vector<std::uint32_t> open);
  bool take_steps(std::uint64_t count);
  // Adds a frame; kNoFrame beyond the limits, and `closure` says if space was the reason.
  std::uint32_t frame(std::uint32_t sequence, std::uint32_t position, std::uint32_t parent,
                      Closure& closure);
  State intern(Closure closure);
  // Reserves that many more frames; false if there is no space.
  bool hold(std::size_t frames);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;
  std::map<std::array<std::uint32_t, 3>, std::uint32_t> frame_ids_;
  std::vector<StateData> states_;
  std::map<std::pair<std::vector<std::uint32_t>, bool>, State> state_ids_;
  // By the frames that accept a byte: most bytes of a character class share them.
  std::map<std::vector<std::uint32_t>, State> state_behind_;
  std::size_t frames_held_ = 0;  // by the three members above
  State start_ = kDead;
  std::uint64_t clearings_ = 0;
  std::uint64_t steps_left_ = kStepsMax;
  std::uint64_t steps_taken_ = 0;
};

}  // namespace edgedraft
