#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace edgedraft {

// A page in Prometheus' text format, written family by family.
class MetricsText {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  explicit MetricsText(std::string prefix) : prefix_(std::move(prefix)) {}

  void counter(const std::string& name, const char* help, std::uint64_t value) {
    begin(name, "counter", help);
    sample(name, {}, value);
  }
  template <class Number>
  void gauge(const std::string& name, const char* help, Number value) {
    begin(name, "gauge", help);
    sample(name, {}, value);
  }
  void begin(const std::string& name, const char* type, const char* help) {
    text_ +=
        "# HELP " + prefix_ + name + ' ' + help + "\n# TYPE " + prefix_ + name + ' ' + type + '\n';
  }
  template <class Number>
  void sample(const std::string& name, const std::string& labels, Number value) {
    text_ +=
        prefix_ + name + (labels.empty() ? "" : '{' + labels + '}') + ' ' + text_of(value) + '\n';
  }
  std::string take() { return std::move(text_); }

  // Requires  a value without quotes, backslashes and line breaks
  static std::string label(const std::string& name, std::string_view value) {
    return name + "=\"" + std::string(value) + '"';
  }
  template <class Number>
  static std::string text_of(Number number) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
  }

 private:
  std::string prefix_;  // put before each name
  std::string text_;
};

}  // namespace edgedraft
