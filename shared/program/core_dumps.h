#pragma once

namespace edgedraft {

// Disables core dumps and debugging by the user's other processes: this process may hold private
// data.
void forbid_core_dumps();

}  // namespace edgedraft
