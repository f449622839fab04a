#pragma once

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// The filter tojson as Hugging Face sets it up: Python's json.dumps with ensure_ascii off.
// `indent` spaces a level; negative: all on one line.
Value to_json(Meter& meter, const Value& value, std::int64_t indent, int line);

}  // namespace edgedraft::chat
