#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace edgedraft {

// A regular expression of our own: PCRE2 with Unicode properties.
// Write \p{White_Space} for \s: PCRE2's \s holds U+180E as well.
//
// Threads   const methods may run concurrently
class Pattern {
 public:
  // Requires  a right expression without nested repeats, which would not be linear
  explicit Pattern(const std::string& expression);

  struct Match {
    std::size_t begin;
    std::size_t end;
  };
  // The first match that begins at `at` or behind it, and is not empty; what stands before `at` is
  // looked at by assertions alone. Requires  valid UTF-8, `at` between two characters
  std::optional<Match> find(std::string_view text, std::size_t at) const;

  // Cuts a text: calls `use` with each match and with what lies between them, in order: together
  // all of `text`. Requires  valid UTF-8
  void split(std::string_view text, const std::function<void(std::string_view)>& use) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace edgedraft
