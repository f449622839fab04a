#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/privacy/private_span.h"

namespace edgedraft {

// A part of a text that its writer marked, or one between two such.
struct MarkedPart {
  std::string text;
  bool is_private = false;
  bool operator==(const MarkedPart&) const = default;
};

// The parts of a text with <private>...</private> in it, without the marks. A mark counts in any
// case, with blanks, attributes and invisible characters in it, in square brackets, in wide letters
// and with any of its characters escaped. What is doubtful is private: marks may be nested, one
// that is never closed, or closes itself (<private/>), reaches to the next closing one or the end,
// a closing mark that none opened closes all of the text before it, and a second closing mark is
// taken for the end of the text that the first one seemed to close.
std::vector<MarkedPart> split_marks(std::string_view text);

// Private text without the marks in it, and what these mark: whatever stands before a closing mark,
// or behind an opening one that is never closed.
struct UnmarkedText {
  std::string text;
  std::vector<PrivateSpan> marked;
};
// Where marks are nested very deep only the outer ones count, so that this stays linear.
UnmarkedText without_marks(std::string_view private_text);

}  // namespace edgedraft
