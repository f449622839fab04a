#pragma once

#include <string>

#include "shared/model/chat_template/arguments.h"
#include "shared/model/chat_template/meter.h"

namespace edgedraft::chat {

// object.name(arguments), of strings and mappings.
Value call_method(Meter& meter, const Value& object, const std::string& name,
                  const Arguments& arguments, int line);

// Texts joined, `separator` between them.
Value join(Meter& meter, const std::vector<Value>& items, const MarkedText& separator, int line);

// `text` with `to` for each `from`.
Value replace_text(Meter& meter, const MarkedText& text, const Value& from, const Value& to,
                   int line);

// Pairs of names and values.
Value items_of(Meter& meter, const Map& map, int line);

}  // namespace edgedraft::chat
