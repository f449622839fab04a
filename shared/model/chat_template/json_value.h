#pragma once

#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// What a JSON text says, all of it foreign.
// Errors    usage: it is no JSON, or nests deeper than templates may; the message calls it `what`
Result<Value> json_value(std::string_view json, std::string_view what);

// As tojson writes it.
std::string fraction_text(double fraction);

}  // namespace edgedraft::chat
