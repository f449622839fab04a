#pragma once

#include <string>
#include <string_view>

namespace edgedraft {

enum class Lines {
  one,   // a message: a line break is none of its own
  many,  // a text: line breaks and tabs stay
};

// `text` with its control characters (C0, DEL, C1) written out as \xHH: a stranger's words must not
// move a terminal's cursor, change its title, write to its clipboard or begin a line.
std::string printable(std::string_view text, Lines lines);

}  // namespace edgedraft
