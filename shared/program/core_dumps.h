#pragma once

namespace edgedraft {

// From here on this process leaves no image of its memory behind if it dies, and no other of this
// user's may look into it: it may hold what is private.
void forbid_core_dumps();

}  // namespace edgedraft
