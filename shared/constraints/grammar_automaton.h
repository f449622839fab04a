#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "shared/constraints/grammar.h"

namespace edgedraft {

// Reads texts of a grammar byte by byte. What it finds on the way it keeps, so that from then on a
// byte is a look into a table. The tables are bounded. If they are full, the reader has them
// cleared of all but its own state and goes on from there, so what a text is does not depend on
// what was read before. Texts beyond kDepthMax and kFramesAStateMax count as wrong, which takes
// nesting of some hundreds or a grammar that is very ambiguous; so do texts that take more
// searching than was allowed.
class GrammarAutomaton {
  // What is left of a sequence, and of those that it stands in.
  struct Frame {
    std::uint32_t sequence;
    std::uint32_t position;
    std::uint32_t parent;  // a frame, or kBottom
    std::uint32_t depth;
  };

 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;  // no text begins like this
  // There may be a state, but the tables are full.
  static constexpr State kNoRoom = 0xFFFF;

  static constexpr std::size_t kStatesMax = 8192;
  static constexpr std::size_t kFramesMax = 1u << 16;
  static constexpr std::size_t kFramesAStateMax = 1u << 14;
  static constexpr std::size_t kHeldFramesMax = 1u << 22;  // of all states
  static constexpr std::uint32_t kDepthMax = 512;
  static constexpr std::uint64_t kStepsMax = 1u << 22;  // some tenths of a second

  explicit GrammarAutomaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }
  // Behind kNoRoom: the same.
  State next(State state, std::uint8_t byte);
  // The text may end here.
  bool accepts(State state) const { return state != kNoRoom && states_[state].accepts; }

  // A state by itself.
  struct Place {
    std::vector<Frame> frames;          // parents first; of these, by index
    std::vector<std::uint32_t> before;  // those that stand before a byte
    bool accepts = false;
  };
  Place place_of(State state);
  // Forgets all states.
  void clear();
  // How often that was done.
  std::uint64_t clearings() const { return clearings_; }
  // kNoRoom where the tables are too full, kDead where steps are too few. Requires  they were
  // cleared since the place was taken
  State enter(const Place& place);
  // Forgets all states but one, and returns its new number.
  State clear_but(State state);

  // Searches, places and clearing cost steps, of which there are kStepsMax at first and at most.
  void allow_steps(std::uint64_t steps);
  // What was found to be dead last may not be so.
  bool out_of_steps() const { return steps_left_ == 0; }
  std::uint64_t steps_taken() const { return steps_taken_; }

 private:
  static constexpr std::uint32_t kBottom = 0;
  static constexpr std::uint32_t kNoFrame = 0xFFFFFFFFu;

  struct StateData {
    std::vector<std::uint32_t> frames;  // before a byte each, sorted
    bool accepts = false;
    // kNoRoom: not known yet.
    std::unique_ptr<std::array<std::uint16_t, 256>> next{};
  };

  // All that can come behind: the frames before their next byte.
  struct Closure {
    std::vector<std::uint32_t> frames;
    bool accepts = false;
    // It lacks some: the tables were full, or the steps used up.
    bool crowded = false;
    bool exhausted = false;
  };
  void close(Closure& closure, std::vector<std::uint32_t> open);
  bool take_steps(std::uint64_t count);
  // kNoFrame beyond the bounds; then `closure` says if that is for lack of room.
  std::uint32_t frame(std::uint32_t sequence, std::uint32_t position, std::uint32_t parent,
                      Closure& closure);
  State intern(Closure closure);
  // Whether so many frames more can be held, which then they are.
  bool hold(std::size_t frames);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;
  std::map<std::array<std::uint32_t, 3>, std::uint32_t> frame_ids_;
  std::vector<StateData> states_;
  std::map<std::pair<std::vector<std::uint32_t>, bool>, State> state_ids_;
  // By the frames that take a byte: most bytes of a character class are taken by the same.
  std::map<std::vector<std::uint32_t>, State> state_behind_;
  std::size_t frames_held_ = 0;  // by the last three
  State start_ = kDead;
  std::uint64_t clearings_ = 0;
  std::uint64_t steps_left_ = kStepsMax;
  std::uint64_t steps_taken_ = 0;
};

}  // namespace edgedraft
