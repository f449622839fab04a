#pragma once

#include <string_view>

#include "shared/base/error.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// Value of a JSON text, all marked foreign.
// Errors    usage: not JSON, or nested deeper than templates allow; the message calls it `what`
Result<Value> json_value(std::string_view json, std::string_view what);

}  // namespace edgedraft::chat
