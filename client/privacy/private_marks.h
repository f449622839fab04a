#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace edgedraft {

// A part of a text that its writer marked, or one between two such.
struct MarkedPart {
  std::string text;
  bool is_private = false;
  bool operator==(const MarkedPart&) const = default;
};

// The parts of a text with <private>...</private> in it, in whatever case, without the marks. What
// is doubtful is private: marks may be nested, one that is never closed reaches to the end, a
// closing mark that none opened closes all of the text before it, and a second closing mark is
// taken for the end of the text that the first one seemed to close.
std::vector<MarkedPart> split_marks(std::string_view text);

}  // namespace edgedraft
