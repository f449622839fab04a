#pragma once

namespace edgedraft::client {

// As printed by --version and logged by servers.
inline constexpr const char* kVersion = "edgedraft " EDGEDRAFT_VERSION;

}  // namespace edgedraft::client
