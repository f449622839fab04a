#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

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

  // Name of the replica that welcomed a link last; empty: it has none.
  std::string replica() const {
    const std::scoped_lock lock(mutex_);
    return replica_;
  }
  void set_replica(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    replica_ = name;
  }

 private:
  std::atomic<State> state_ = State::unknown;
  std::atomic<bool> was_made_ = false;
  mutable std::mutex mutex_;
  std::string replica_;  // guarded by mutex_
};

// A switch for the network of any number of links. While it is pulled, their connections end
// silently and none is made.
//
// Threads   any
class LinkPlug {
 public:
  void put(bool in);
  bool is_in() const;

  // Calls `on_change` when the plug is pulled or put in, on the thread that does it, until
  // destroyed. The plug outlives it; `on_change` must not call the plug.
  class Watch {
   public:
    Watch(LinkPlug& plug, std::function<void()> on_change);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    LinkPlug& plug_;
    std::uint64_t id_;
  };

 private:
  mutable std::mutex mutex_;
  bool is_in_ = true;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::function<void()>> watches_;
};

}  // namespace edgedraft
