#pragma once

#include <atomic>
#include <cstdint>

namespace edgedraft {

// State of one server, shared by the links to it. Outlives them.
//
// Threads   any
class ServerContact {
 public:
  enum class State : std::uint8_t {
    unknown,    // no attempt yet
    reachable,  // the last attempt succeeded
    away,       // the last attempt or connection failed
  };

  State state() const { return state_; }
  // At least one link has met the server.
  bool was_made() const { return was_made_; }
  void made() {
    was_made_ = true;
    state_ = State::reachable;
  }
  void lost() { state_ = State::away; }

 private:
  std::atomic<State> state_ = State::unknown;
  std::atomic<bool> was_made_ = false;
};

}  // namespace edgedraft
