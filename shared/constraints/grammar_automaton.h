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
// byte is a look into a table. Its memory and the time of all searches together are bounded: beyond
// the bounds texts count as wrong, which takes nesting of some hundreds or a grammar that is very
// ambiguous.
class GrammarAutomaton {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;  // no text begins like this

  static constexpr std::size_t kStatesMax = 4096;
  static constexpr std::size_t kFramesMax = 1u << 16;
  static constexpr std::size_t kFramesAStateMax = 1024;
  static constexpr std::uint32_t kDepthMax = 512;
  static constexpr std::uint64_t kStepsMax = 1u << 23;  // a second or two

  explicit GrammarAutomaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }
  State next(State state, std::uint8_t byte);
  // The text may end here.
  bool accepts(State state) const { return states_[state].accepts; }

 private:
  // What is left of a sequence, and of those that it stands in.
  struct Frame {
    std::uint32_t sequence;
    std::uint32_t position;
    std::uint32_t parent;  // a frame, or kBottom
    std::uint32_t depth;
  };
  static constexpr std::uint32_t kBottom = 0;
  static constexpr std::uint32_t kUnknown = 0xFFFFFFFFu;

  struct StateData {
    std::vector<std::uint32_t> frames;  // before a byte each, sorted
    bool accepts = false;
    std::unique_ptr<std::array<State, 256>> next{};
  };

  // All that can come behind: the frames before their next byte.
  struct Closure {
    std::vector<std::uint32_t> frames;
    bool accepts = false;
  };
  void close(Closure& closure, std::vector<std::uint32_t> open);
  std::uint32_t frame(std::uint32_t sequence, std::uint32_t position, std::uint32_t parent);
  State intern(Closure closure);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;
  std::map<std::array<std::uint32_t, 3>, std::uint32_t> frame_ids_;
  std::vector<StateData> states_;
  std::map<std::pair<std::vector<std::uint32_t>, bool>, State> state_ids_;
  State start_ = kDead;
  std::uint64_t steps_ = 0;
};

}  // namespace edgedraft
