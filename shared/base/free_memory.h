#pragma once

namespace edgedraft {

// Returns freed memory to the system. glibc keeps freed blocks of up to 32 MiB for reuse once it
// has seen such sizes; a device needs that memory elsewhere. Takes milliseconds.
void give_back_free_memory();

}  // namespace edgedraft
