#pragma once

#include <mutex>

#include "shared/net/listener.h"

namespace edgedraft::server {

// The listener's statistics; empty before it exists and after it is gone.
//
// Threads   any
class WatchedListener {
 public:
  // The listener is available for the lifetime of this object.
  class Hold {
   public:
    Hold(WatchedListener& watched, const Listener& listener) : watched_(watched) {
      watched_.watch(&listener);
    }
    ~Hold() { watched_.watch(nullptr); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    WatchedListener& watched_;
  };

  ListenerStats stats() const {
    const std::lock_guard lock(mutex_);
    return listener_ != nullptr ? listener_->stats() : ListenerStats{};
  }

 private:
  void watch(const Listener* listener) {
    const std::lock_guard lock(mutex_);
    listener_ = listener;
  }

  mutable std::mutex mutex_;
  const Listener* listener_ = nullptr;
};

}  // namespace edgedraft::server
