#pragma once

#include <string>
#include <string_view>

namespace edgedraft {

enum class Lines {
  one,   // a message: line breaks are escaped
  many,  // a text: line breaks and tabs stay
};

// Returns `text` with control characters (C0, DEL, C1) escaped as \xHH. Untrusted text must not
// move a terminal's cursor, change its title, write to its clipboard or start a new line.
std::string printable(std::string_view text, Lines lines);

}  // namespace edgedraft
