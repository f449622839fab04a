#pragma once

#include <optional>
#include <string>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// In the format of {{ }}, which is Python's str(); nullopt for functions and filters' results.
std::optional<MarkedText> printed(Meter& meter, const Value& value, int line);

// Python's repr(). A string with any foreign part becomes entirely foreign, because escapes shift
// its marks.
std::optional<MarkedText> represented(Meter& meter, const Value& value, int line);

// Python's repr() of a float.
std::string fraction_text(double fraction);

}  // namespace edgedraft::chat
