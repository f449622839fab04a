#pragma once

#include <string>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// object.name: a method or, in a mapping, else the entry of that name. Undefined if missing.
Value attribute_of(Meter& meter, const Value& object, const std::string& name, int line);

// object[key]: an item, or else a method. Undefined if missing.
Value item_of(Meter& meter, const Value& object, const Value& key, int line);

// True if object.name(...) calls a method, even one that does not exist.
bool is_method_of(const Value& object, const std::string& name);

}  // namespace edgedraft::chat
