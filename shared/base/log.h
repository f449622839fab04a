#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace edgedraft {

enum class LogFormat { text, json };

// Logger to standard error. Writes one line per event: text, coloured on a terminal, or a JSON
// object with time, level and message. `level` is one of spdlog's names (trace, debug, info, warn,
// error, off). Control characters are escaped, so a peer cannot forge log lines. Log lines never
// hold prompt or answer text.
std::shared_ptr<spdlog::logger> make_logger(const std::string& level,
                                            LogFormat format = LogFormat::text);

}  // namespace edgedraft
