#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/privacy/privacy_guard.h"
#include "client/privacy/private_span.h"
#include "shared/base/error.h"

namespace edgedraft {

// Placeholders of one request, and what they stand for. They are numbered in the order in which the
// values are first used, so that a conversation that grows keeps them, and the numbers tell nothing
// of other conversations.
class Placeholders {
 public:
  static constexpr std::uint32_t kCountMax = 999;  // of a type: all are of one size

  // `shows_types`: "[MAIL_001]", else "[TEXT_001]".
  explicit Placeholders(bool shows_types) : shows_types_(shows_types) {}

  // A text that holds it by itself keeps it: it is not given out. Before the first of().
  void reserve(std::string_view text);
  // That of the value; empty if there are no more.
  std::string of(std::string_view value, PrivateType type);
  // What it stands for; null if it was not given out.
  const std::string* value_of(const std::string& placeholder) const;

  // How many values of each type it stands for.
  const std::map<PrivateType, std::uint32_t>& counts() const { return counts_; }
  bool empty() const { return values_.empty(); }

 private:
  bool shows_types_;
  std::set<std::string> reserved_;
  std::map<PrivateType, std::uint32_t> numbers_;
  std::map<std::pair<PrivateType, std::u32string>, std::string> given_;  // by value
  std::map<std::string, std::string> values_;                            // by placeholder
  std::map<PrivateType, std::uint32_t> counts_;
};

// Length of every placeholder in bytes.
inline constexpr std::size_t kPlaceholderBytes = 10;
// Whether `text` has a placeholder's form, whatever the case.
bool is_placeholder(std::string_view text);

// Takes private text out of a request: first learn() of all its texts, since what one marks another
// may say without a mark, and then apply() to them in the same order.
class RequestMask {
 public:
  // `guard` outlives it. Requires  mode is not PrivateMode::off
  RequestMask(PrivacyGuard& guard, PrivateMode mode);

  // Takes in what the text marks, and what detectors find of the rest. `is_private`: all of it.
  void learn(std::string_view text, bool is_private);
  // Behind the last learn().
  //
  // Errors    usage: private text that nobody marked is refused; unsupported: there is more than
  //           the guard has room for
  Result<void> check() const;
  // mask, prefix: the text with placeholders; local: the text without its marks.
  std::string apply(std::string_view text, bool is_private);
  // Of a text that has to stay as it is, and goes up: it holds private text. Where such requests
  // stay on the device it is counted like the others.
  bool holds(std::string_view text);

  struct Outcome {
    std::shared_ptr<const Placeholders> placeholders{};  // null where none was needed
    bool is_local = false;                               // there is private text, and it is to stay
  };
  // Behind the last apply().
  //
  // Errors    unsupported: there is more than there are placeholders for
  Result<Outcome> outcome() const;

 private:
  void append_safe(std::string& to, std::string_view text);
  void append_placeholder(std::string& to, std::string_view value, PrivateType type);

  PrivacyGuard& guard_;
  PrivateMode mode_;
  std::shared_ptr<Placeholders> placeholders_;
  std::map<PrivateType, std::uint32_t> detected_;
  bool full_ = false;
  bool found_ = false;  // under local and prefix
};

}  // namespace edgedraft
