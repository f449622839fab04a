#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

#include "shared/base/error.h"
#include "shared/program/byte_size.h"
#include "shared/program/endpoint.h"

// Validators for option values. The option layers apply them to values from any source and put the
// option's name before the message.
namespace edgedraft {

// Turns a function that returns a Result into a validator with its error message.
template <class Parse>
CLI::Validator accepted_by(Parse parse) {
  return {[parse](std::string& text) {
            const auto parsed = parse(text);
            return parsed ? std::string() : parsed.error().message;
          },
          ""};
}

inline CLI::Validator is_endpoint(EndpointUse use) {
  return accepted_by([use](const std::string& text) { return parse_endpoint(text, use); });
}

// A number from `min` to `max`; NaN is refused. `meaning` follows the range: " (0: all)".
template <class Number>
CLI::Validator in_range(Number min, Number max, std::string meaning = {}) {
  return {[min, max, meaning](std::string& text) {
            Number value{};
            // CLI11 reads -1 as the largest value of an unsigned type.
            const bool wraps = std::is_unsigned_v<Number> && text.find('-') != std::string::npos;
            if (!wraps && CLI::detail::lexical_cast(text, value) && value >= min && value <= max) {
              return std::string();
            }
            std::ostringstream said;
            said << "'" << text << "': give a number from " << min << " to " << max << meaning;
            return said.str();
          },
          ""};
}

// Any seed of a generator.
inline CLI::Validator is_seed() {
  return in_range(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
}

// Converts a size to bytes with parse_byte_size(). For transform(), so that it runs before a range
// check.
inline CLI::Validator as_byte_size() {
  return {[](std::string& text) {
            const auto bytes = parse_byte_size(text);
            if (!bytes) return bytes.error().message;
            text = std::to_string(*bytes);
            return std::string();
          },
          ""};
}

// Log levels of a program.
inline CLI::Validator is_log_level() {
  return CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"});
}

}  // namespace edgedraft
