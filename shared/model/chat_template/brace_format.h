#pragma once

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// text.format(...): fields such as {}, {0}, {name}, {name.key}, {0[1]}, {!r} and {:>5.1f}.
Value brace_format(Meter& meter, const MarkedText& text, const Arguments& arguments, int line);

}  // namespace edgedraft::chat
