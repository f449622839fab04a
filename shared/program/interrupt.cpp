#include "shared/program/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace edgedraft {
namespace {

// Global, since signal handlers reach nothing else; atomic, since several threads read them.
std::atomic<bool> requested = false;
std::atomic<bool> terminated = false;  // by SIGTERM
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  if (interrupted()) {
    // Text may currently be dimmed.
    if (isatty(STDOUT_FILENO) == 1 && write(STDOUT_FILENO, "\x1b[0m", 4) < 0) _exit(1);
    _exit(kInterruptedExitCode);
  }
  (signal == SIGTERM ? terminated : requested) = true;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void ignore_closed_pipes() {
  signal(SIGPIPE, SIG_IGN);
}

void end_by_closed_pipe() {
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
  _exit(128 + SIGPIPE);  // SIGPIPE is blocked
}

bool interrupted() {
  return requested || terminated;
}

void clear_interrupt() {
  requested = false;
}

}  // namespace edgedraft
