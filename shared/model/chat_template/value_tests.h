#pragma once

#include <string>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// value is name(arguments)
Value apply_test(Meter& meter, const Value& value, const std::string& name,
                 const Arguments& arguments, int line);

}  // namespace edgedraft::chat
