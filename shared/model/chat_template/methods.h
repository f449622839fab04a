#pragma once

#include <string>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// object.name(arguments), for strings, sequences and mappings.
Value call_method(Meter& meter, const Value& object, const std::string& name,
                  const Arguments& arguments, int line);

// Joins texts with `separator` between them.
Value join(Meter& meter, const std::vector<Value>& items, const MarkedText& separator, int line);

// Tuples of names and values, as a sequence of that kind.
Value items_of(Meter& meter, const Map& map, ListKind kind, int line);

}  // namespace edgedraft::chat
