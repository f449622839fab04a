#pragma once

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// text % values, of Python's printf-style formatting: a tuple, a mapping for '%(name)s', or one
// value. Conversions are s, r, d, i, f, x and X.
Value percent_format(Meter& meter, const Value& text, const Value& values, int line);

}  // namespace edgedraft::chat
