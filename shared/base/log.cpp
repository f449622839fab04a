#include "shared/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <nlohmann/json.hpp>

#include "shared/base/printable.h"

namespace edgedraft {
namespace {

// The message with its control characters escaped.
class EscapedText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    const std::string text =
        printable({message.payload.data(), message.payload.size()}, Lines::one);
    to.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedText>();
  }
};

// The message as a JSON string.
class JsonString final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    const nlohmann::json text = std::string(message.payload.data(), message.payload.size());
    const std::string quoted =
        text.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
    to.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonString>();
  }
};

}  // namespace

std::shared_ptr<spdlog::logger> make_logger(const std::string& level, LogFormat format) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("edgedraft", std::move(sink));
  logger->set_level(spdlog::level::from_str(level));
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == LogFormat::json) {
    formatter->add_flag<JsonString>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
  } else {
    formatter->add_flag<EscapedText>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*");
  }
  logger->set_formatter(std::move(formatter));
  return logger;
}

}  // namespace edgedraft
