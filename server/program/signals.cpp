#include "server/program/signals.h"

#include <pthread.h>

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace edgedraft::server {
namespace {

constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 50'000'000};

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// Restores the default action for the next signal.
void let_through() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  const sigset_t set = set_of({SIGINT, SIGTERM});
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

Signals::Signals() {
  const sigset_t set = set_of({SIGINT, SIGTERM, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

Signals::Told Signals::wait() {
  const sigset_t set = set_of({SIGINT, SIGTERM, SIGHUP});
  int signal = 0;
  sigwait(&set, &signal);
  if (signal == SIGHUP) return Told::reload;
  let_through();
  return Told::stop;
}

EndOnSignal::EndOnSignal()
    : thread_([this] {
        const sigset_t set = set_of({SIGINT, SIGTERM});
        while (!over_) {
          const int signal = sigtimedwait(&set, nullptr, &kLookEvery);
          if (signal < 0) continue;
          let_through();
          std::raise(signal);
        }
      }) {}

EndOnSignal::~EndOnSignal() {
  over_ = true;
  thread_.join();
}

}  // namespace edgedraft::server
