#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// value | name(arguments)
Value apply_filter(Meter& meter, const Value& value, const std::string& name,
                   const Arguments& arguments, int line);

// Filters that read the items of a value; nullopt for other names.
std::optional<Value> apply_list_filter(Meter& meter, const Value& value, const std::string& name,
                                       const Arguments& arguments, int line);

}  // namespace edgedraft::chat
