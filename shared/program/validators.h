#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "shared/base/error.h"
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
            if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) {
              return std::string();
            }
            std::ostringstream said;
            said << "'" << text << "': give a number from " << min << " to " << max << meaning;
            return said.str();
          },
          ""};
}

// One of a few words.
inline CLI::Validator one_of(std::initializer_list<const char*> words) {
  return {[words = std::vector<std::string>(words.begin(), words.end())](std::string& text) {
            std::string list;
            for (std::size_t i = 0; i < words.size(); ++i) {
              if (words[i] == text) return std::string();
              list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
            }
            return "'" + text + "': give " + list;
          },
          ""};
}

// The levels of a program's log.
inline CLI::Validator is_log_level() {
  return one_of({"trace", "debug", "info", "warn", "error", "off"});
}

}  // namespace edgedraft
