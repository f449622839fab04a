#include "client/serve/schema/text_grammars.h"

#include <algorithm>
#include <string_view>

namespace edgedraft::client {
namespace {

std::string digits(char first, char last) {
  if (first == last) return {'"', first, '"'};
  return {'[', first, '-', last, ']'};
}

// Numbers from `first` to `last`, with equally many digits.
std::string numbers(std::string_view first, std::string_view last) {
  const std::size_t count = first.size();
  const std::string zeros(count, '0');
  const std::string nines(count, '9');
  if (count == 0) return "\"\"";
  if (first == zeros && last == nines) return "[0-9]{" + std::to_string(count) + "}";
  if (first[0] == last[0]) {
    return digits(first[0], first[0]) + ' ' + numbers(first.substr(1), last.substr(1));
  }
  // Only the first and last leading digits restrict the digits after them.
  char from = first[0];
  char to = last[0];
  std::string body;
  if (first.substr(1) != std::string_view(zeros).substr(1)) {
    body = digits(from, from) + ' ' + numbers(first.substr(1), std::string_view(nines).substr(1));
    ++from;
  }
  if (last.substr(1) != std::string_view(nines).substr(1)) {
    body += (body.empty() ? "" : " | ") + digits(to, to) + ' ' +
            numbers(std::string_view(zeros).substr(1), last.substr(1));
    --to;
  }
  if (from <= to) {
    body += (body.empty() ? "" : " | ") + digits(from, to) + " [0-9]{" + std::to_string(count - 1) +
            "}";
  }
  return '(' + body + ')';
}

// Appends alternatives for the whole numbers from `first`, which is positive, to `last`.
void append_numbers(std::string& body, std::int64_t first, std::int64_t last, const char* sign) {
  while (first <= last) {
    const std::string from = std::to_string(first);
    const std::string end = std::to_string(last);
    std::string rule;
    if (from.size() == end.size()) {
      rule = numbers(from, end);
      first = kWholeMax + 1;
    } else if (from[0] == '1' && from.find_first_not_of('0', 1) == std::string::npos) {
      // All numbers with fewer digits than the last.
      rule = "[1-9] [0-9]{" + std::to_string(from.size() - 1) + ',' +
             std::to_string(end.size() - 2) + '}';
      first = std::stoll('1' + std::string(end.size() - 1, '0'));
    } else {
      rule = numbers(from, std::string(from.size(), '9'));
      first = std::stoll('1' + std::string(from.size(), '0'));
    }
    body += (body.empty() ? "" : " | ") + std::string(sign) + rule;
  }
}

}  // namespace

std::string whole_numbers(std::int64_t first, std::int64_t last) {
  std::string body = first <= 0 && last >= 0 ? "\"0\"" : "";
  append_numbers(body, std::max<std::int64_t>(first, 1), last, "");
  append_numbers(body, std::max<std::int64_t>(-last, 1), -first, "\"-\" ");
  return body;
}

}  // namespace edgedraft::client
