#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// Operators of expressions, with Python's semantics. Failures are reported to the meter; the result
// is then meaningless.

// Charged by its length.
Value text_value(Meter& meter, MarkedText text);

// Charged by its length; refused if nested too deeply.
Value list_value(Meter& meter, int line, std::vector<Value> items, ListKind kind = ListKind::list);
Value map_value(Meter& meter, int line, Map map);

// Items that a loop reads: of a sequence, a string's characters, a mapping's names.
std::optional<std::vector<Value>> items_to_read(Meter& meter, const Value& value, int line);

// + - * / // % ** of numbers.
Value arithmetic(Meter& meter, const std::string& name, const Value& a, const Value& b, int line);

// Charges for searching `part` in a text: std::string::find may compare all pairs of positions.
bool spend_on_search(Meter& meter, std::string_view text, std::string_view part);

// == != < <= > >= in, not in
bool apply_comparison(Meter& meter, const std::string& name, const Value& a, const Value& b,
                      int line);

// Any other binary operator except `and` and `or`, which may skip the second operand.
Value apply_binary(Meter& meter, const std::string& name, const Value& a, const Value& b, int line);

// Reads and sets the value of a key in a mapping. Charged for comparisons and storage.
Value member(Meter& meter, const Map& map, const Value& key);
Value member(Meter& meter, const Map& map, std::string_view name);
// Requires  a string or an integer as the key
void set_member(Meter& meter, Map& map, Value key, Value value);

}  // namespace edgedraft::chat
