#include "shared/program/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace edgedraft {
namespace {

// A signal handler reaches nothing but globals.
volatile sig_atomic_t requested = 0;

void on_signal(int) {
  if (requested != 0) {
    // Text may be dim at the moment.
    if (isatty(STDOUT_FILENO) == 1 && write(STDOUT_FILENO, "\x1b[0m", 4) < 0) _exit(1);
    _exit(kInterruptedExitCode);
  }
  requested = 1;
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

bool interrupted() {
  return requested != 0;
}

void clear_interrupt() {
  requested = 0;
}

}  // namespace edgedraft
