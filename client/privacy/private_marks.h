#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/privacy/private_span.h"

namespace edgedraft::client {

// A marked part of a text, or an unmarked part between marks.
struct MarkedPart {
  std::string text;
  bool is_private = false;
  bool operator==(const MarkedPart&) const = default;
};

// Splits a text at <private>...</private> and drops the marks. Marks may have any case, blanks,
// attributes and invisible characters, square brackets, wide letters, and escaped characters.
// Doubtful text is private:
// - Marks may be nested.
// - A mark that is never closed, or closes itself (<private/>), extends to the next closing mark or
//   to the end.
// - A closing mark without an opening one marks all text before it.
// - A second closing mark ends the text that the first one seemed to end.
std::vector<MarkedPart> split_marks(std::string_view text);

// Private text without its marks, and the marked spans. These include text before a closing mark,
// or after an opening mark that is never closed.
struct UnmarkedText {
  std::string text;
  std::vector<PrivateSpan> marked;
};
// Ignores inner marks beyond a nesting limit, which keeps the time linear.
UnmarkedText without_marks(std::string_view private_text);

}  // namespace edgedraft::client
