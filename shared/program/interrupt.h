#pragma once

#include <chrono>

#include "shared/base/clock.h"

namespace edgedraft {

// Makes Ctrl-C (SIGINT) and SIGTERM request an end: long work polls interrupted(). A second signal
// meanwhile ends the process at once with status 130. Blocking reads return early. Threads
// interrupted() from any
void catch_interrupts();
// Makes writing to a closed pipe return an error. Child processes inherit this.
void ignore_closed_pipes();
// Ends the process as writing to a closed pipe would by default.
[[noreturn]] void end_by_closed_pipe();
bool interrupted();
// Clears Ctrl-C, which may have been meant for one answer. SIGTERM stays: it is meant for the
// program.
void clear_interrupt();

// Poll interval of code that waits for something else.
inline constexpr Duration kInterruptDelay = std::chrono::milliseconds(50);

inline constexpr int kInterruptedExitCode = 130;

}  // namespace edgedraft
