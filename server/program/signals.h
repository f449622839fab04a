#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace edgedraft {

// SIGINT, SIGTERM and SIGHUP as events of the main thread.
class Signals {
 public:
  enum class Told : std::uint8_t { reload, stop };

  // Requires  no other thread yet: those that are started from here on leave signals to this object
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Waits for the next. After `stop` another SIGINT or SIGTERM ends the process at once.
  Told wait();
};

// While it lives SIGINT and SIGTERM end the process at once: nobody is served yet, so nobody has to
// be told.
class EndOnSignal {
 public:
  // Requires  a Signals
  EndOnSignal();
  ~EndOnSignal();
  EndOnSignal(const EndOnSignal&) = delete;
  EndOnSignal& operator=(const EndOnSignal&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace edgedraft
