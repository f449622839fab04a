#include "shared/model/chat_template/string_operations.h"

#include <algorithm>

namespace edgedraft::chat {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\f\v";

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string apply_method(std::string_view name, std::string_view text) {
  if (name == "upper" || name == "lower") {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), name == "upper" ? upper : lower);
    return out;
  }
  if (name != "rstrip") {
    const std::size_t first = text.find_first_not_of(kSpaces);
    text.remove_prefix(first == text.npos ? text.size() : first);
  }
  if (name != "lstrip") text = text.substr(0, text.find_last_not_of(kSpaces) + 1);
  return std::string(text);
}

std::int64_t character_count(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace edgedraft::chat
