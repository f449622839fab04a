#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace edgedraft {

// A trusted regular expression: PCRE2 with Unicode properties, where \s is \p{White_Space}.
//
// Threads   const methods may run concurrently
class Pattern {
 public:
  // Requires  a valid expression without nested repeats, which would not be linear
  explicit Pattern(std::string_view expression);

  struct Match {
    std::size_t begin;
    std::size_t end;
  };
  // First non-empty match at or after `at`; earlier text is only seen by assertions.
  // Requires  valid UTF-8, `at` on a character boundary
  std::optional<Match> find(std::string_view text, std::size_t at) const;

  // Splits a text: calls `use` with each match and each gap, in order, which together are `text`.
  // Requires  valid UTF-8
  void split(std::string_view text, const std::function<void(std::string_view)>& use) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace edgedraft
