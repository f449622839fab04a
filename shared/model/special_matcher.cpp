#include "shared/model/special_matcher.h"

#include <algorithm>

namespace edgedraft {

SpecialMatcher::SpecialMatcher(std::vector<std::pair<std::string, std::uint32_t>> texts)
    : texts_(std::move(texts)) {
  std::erase_if(texts_, [](const auto& entry) { return entry.first.empty(); });
  std::sort(texts_.begin(), texts_.end());
  for (const auto& entry : texts_) begins_one_[static_cast<unsigned char>(entry.first[0])] = true;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text, std::size_t begin,
                                                          const Allowed& allowed) const {
  for (; begin < text.size(); ++begin) {
    if (!begins_one_[static_cast<unsigned char>(text[begin])]) continue;
    if (auto match = match_at(text, begin, allowed)) return match;
  }
  return std::nullopt;
}

// Walks the sorted texts like a trie: [first, last) start with the bytes read so far.
std::optional<SpecialMatcher::Match> SpecialMatcher::match_at(std::string_view text,
                                                              std::size_t begin,
                                                              const Allowed& allowed) const {
  std::optional<Match> longest;
  auto first = texts_.begin();
  auto last = texts_.end();
  for (std::size_t depth = 0; begin + depth < text.size() && first != last; ++depth) {
    const auto next = static_cast<unsigned char>(text[begin + depth]);
    const auto at_depth = [depth](const auto& entry) {
      return depth < entry.first.size() ? static_cast<unsigned char>(entry.first[depth]) : -1;
    };
    first = std::partition_point(first, last, [&](const auto& e) { return at_depth(e) < next; });
    last = std::partition_point(first, last, [&](const auto& e) { return at_depth(e) <= next; });
    if (first != last && first->first.size() == depth + 1) {
      const Match match{begin, begin + depth + 1, first->second};
      if (allowed(match)) longest = match;
    }
  }
  return longest;
}

}  // namespace edgedraft
