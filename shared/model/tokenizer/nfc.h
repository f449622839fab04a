#pragma once

#include <string>
#include <string_view>

namespace edgedraft {

// Unicode's normalisation form C. Close to linear in the text, for any number of stacked marks.
// Requires  valid UTF-8
std::string to_nfc(std::string_view text);

}  // namespace edgedraft
