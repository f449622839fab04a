#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// What the operators of expressions do, as Python does it. Failures go to the meter, and the result
// is then of no use.

// Paid for by its length.
Value text_value(Meter& meter, MarkedText text);

// Paid for by its length; refused where it nests too deeply.
Value list_value(Meter& meter, int line, std::vector<Value> items);
Value map_value(Meter& meter, int line, Map map);

// As {{ }} writes it; nothing for lists and mappings.
std::optional<MarkedText> printed(Meter& meter, const Value& value, int line);

// + - * % of integers.
Value arithmetic(Meter& meter, const std::string& name, const Value& a, const Value& b, int line);

// Pays for looking for `part` in a text: std::string::find may compare every pair of places.
bool spend_on_search(Meter& meter, std::string_view text, std::string_view part);

// part in whole
Value contains(Meter& meter, const Value& part, const Value& whole, int line);

// Any operator of two values but `and` and `or`, which may leave out the second.
Value apply_binary(Meter& meter, const std::string& name, const Value& a, const Value& b, int line);

// Reads and sets the value of a name in a mapping. Paid for by what is compared and kept.
Value member(Meter& meter, const Map& map, std::string_view name);
void set_member(Meter& meter, Map& map, MarkedText name, Value value);

}  // namespace edgedraft::chat
