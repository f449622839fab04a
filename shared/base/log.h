#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace edgedraft {

// A logger to standard error: coloured on a terminal, plain elsewhere. `level` is one of spdlog's
// names (trace, debug, info, warn, error, off). Log lines never hold prompt or answer text.
std::shared_ptr<spdlog::logger> make_logger(const std::string& level);

}  // namespace edgedraft
