#pragma once

#include <string>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// object.name(arguments), for strings and mappings.
Value call_method(Meter& meter, const Value& object, const std::string& name,
                  const Arguments& arguments, int line);

// Joins texts with `separator` between them.
Value join(Meter& meter, const std::vector<Value>& items, const MarkedText& separator, int line);

// Replaces each `from` in `text` by `to`.
Value replace_text(Meter& meter, const MarkedText& text, const Value& from, const Value& to,
                   int line);

// Pairs of names and values.
Value items_of(Meter& meter, const Map& map, int line);

}  // namespace edgedraft::chat
