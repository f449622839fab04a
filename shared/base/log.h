#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace edgedraft {

enum class LogFormat { text, json };

// A logger to standard error: a line of text an event, coloured on a terminal, or a JSON object
// with time, level and message. `level` is one of spdlog's names (trace, debug, info, warn, error,
// off). Control characters are escaped, so that no peer's words can make a line of their own. Log
// lines never hold prompt or answer text.
std::shared_ptr<spdlog::logger> make_logger(const std::string& level,
                                            LogFormat format = LogFormat::text);

}  // namespace edgedraft
