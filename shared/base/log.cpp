#include "shared/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace edgedraft {

std::shared_ptr<spdlog::logger> make_logger(const std::string& level) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("edgedraft", std::move(sink));
  logger->set_level(spdlog::level::from_str(level));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  return logger;
}

}  // namespace edgedraft
