#pragma once

#include <string>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// value | tojson(ensure_ascii, indent, separators, sort_keys), in Hugging Face's form: Python's
// json.dumps with ensure_ascii off.
Value to_json(Meter& meter, const Value& value, const Arguments& arguments, int line);

}  // namespace edgedraft::chat
