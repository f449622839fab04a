#pragma once

namespace edgedraft {

// Gives the system back what has been freed, as far as the C library keeps it: glibc's keeps blocks
// of up to 32 MiB once it has seen such, and a device has use for them. Milliseconds.
void give_back_free_memory();

}  // namespace edgedraft
