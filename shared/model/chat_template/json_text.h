#pragma once

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// Filter tojson with Hugging Face's settings: Python's json.dumps with ensure_ascii off. `indent`
// is in spaces per level; negative: one line.
Value to_json(Meter& meter, const Value& value, std::int64_t indent, int line);

}  // namespace edgedraft::chat
