#pragma once

namespace edgedraft {

// As --version prints it and servers log it.
inline constexpr const char* kVersion = "edgedraft " EDGEDRAFT_VERSION;

}  // namespace edgedraft
