#pragma once

#include <string>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// value | name(arguments)
Value apply_filter(Meter& meter, const Value& value, const std::string& name,
                   const Arguments& arguments, int line);

// value is name(arguments)
Value apply_test(Meter& meter, const Value& value, const std::string& name,
                 const Arguments& arguments, int line);

// object.name, object[key]
Value attribute_of(Meter& meter, const Value& object, const std::string& name, int line);

}  // namespace edgedraft::chat
