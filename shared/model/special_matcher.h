#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgedraft {

// Finds special tokens in a text, the longest at each position.
class SpecialMatcher {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    std::uint32_t id;
  };
  using Allowed = std::function<bool(const Match&)>;

  // Empty texts never match.
  explicit SpecialMatcher(std::vector<std::pair<std::string, std::uint32_t>> texts);

  // First match from `begin` on that `allowed` accepts.
  std::optional<Match> find(std::string_view text, std::size_t begin, const Allowed& allowed) const;

 private:
  std::optional<Match> match_at(std::string_view text, std::size_t begin,
                                const Allowed& allowed) const;

  std::vector<std::pair<std::string, std::uint32_t>> texts_;  // sorted by text
  std::array<bool, 256> begins_one_{};                        // by first byte
};

}  // namespace edgedraft
