#pragma once

#include <chrono>

#include "shared/base/clock.h"

namespace edgedraft {

// Ctrl-C (SIGINT) and SIGTERM ask for an end instead of ending the process: work that takes time
// looks at interrupted(). A second one that comes while that holds ends the process at once with
// status 130. Waiting reads return early. Threads   interrupted() from any
void catch_interrupts();
// From here on a closed pipe is an error of the write. Programs that we start inherit it.
void ignore_closed_pipes();
// Ends the process as a write to a closed pipe would have.
[[noreturn]] void end_by_closed_pipe();
bool interrupted();
// Forgets Ctrl-C, which may have been meant for an answer alone. SIGTERM is meant for the program.
void clear_interrupt();

// How soon those who wait for something else see it.
inline constexpr Duration kInterruptDelay = std::chrono::milliseconds(50);

inline constexpr int kInterruptedExitCode = 130;

}  // namespace edgedraft
