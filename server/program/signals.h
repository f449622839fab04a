#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace edgedraft::server {

// Delivers SIGINT, SIGTERM and SIGHUP to the main thread.
class Signals {
 public:
  enum class Told : std::uint8_t { reload, stop };

  // Requires  no other threads yet; later ones inherit the blocked signals
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Waits for the next signal. After `stop`, a second SIGINT or SIGTERM ends the process at once.
  Told wait();
};

// For its lifetime, SIGINT and SIGTERM end the process at once: there are no clients to notify yet.
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

}  // namespace edgedraft::server
