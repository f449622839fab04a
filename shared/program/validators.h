#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

#include "shared/base/error.h"
#include "shared/program/byte_size.h"
#include "shared/program/endpoint.h"

// What values an option takes. The option layers apply these wherever a value comes from, and put
// the option's name before what they say.
namespace edgedraft {

// Any function that gives a Result as a validator: its error's message is what is said.
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

// A number from `min` to `max`; NaN is in no range. `meaning` follows the numbers: " (0: all)".
template <class Number>
CLI::Validator in_range(Number min, Number max, std::string meaning = {}) {
  return {[min, max, meaning](std::string& text) {
            Number value{};
            // To CLI11 -1 is the largest number of an unsigned type.
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

// Any number that seeds a generator.
inline CLI::Validator is_seed() {
  return in_range(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
}

// A size as parse_byte_size() reads it; the option gets the bytes. For transform(), so that it is
// turned into bytes before a range is checked.
inline CLI::Validator as_byte_size() {
  return {[](std::string& text) {
            const auto bytes = parse_byte_size(text);
            if (!bytes) return bytes.error().message;
            text = std::to_string(*bytes);
            return std::string();
          },
          ""};
}

// The levels of a program's log.
inline CLI::Validator is_log_level() {
  return CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"});
}

}  // namespace edgedraft
