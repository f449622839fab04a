#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// How '%5.1f' and '{:>5.1f}' write one value.
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^, = pads after the sign; none: the type's own
  char sign = '-';    // - for negative numbers only, + for all, space before positive ones
  bool commas = false;
  std::size_t width = 0;  // in characters
  std::optional<std::size_t> precision{};
  char type = '\0';  // d f x X s; none: the value's own form
};

inline constexpr std::size_t kFormatWidthMax = 1024;  // also of a precision

// Reads digits at the start of `text` and removes them; 0 if there are none, nullopt if they
// exceed kFormatWidthMax.
std::optional<std::size_t> take_digits(std::string_view& text);

// nullopt, with an error at the meter, if the value or the type is not supported.
std::optional<MarkedText> formatted(Meter& meter, const Value& value, const FormatSpec& spec,
                                    int line);

}  // namespace edgedraft::chat
