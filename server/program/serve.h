#pragma once

#include "server/program/options.h"
#include "shared/base/error.h"

namespace edgedraft::server {

// Runs the server until a signal ends it. Returns the exit status.
Result<int> serve_clients(const ServerOptions& options);

}  // namespace edgedraft::server
