#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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
  // That of the value, which is the same for all that have the same `identity`; empty if there are
  // no more.
  std::string of(std::string_view value, PrivateType type, const std::u32string& identity);
  // What it stands for; null if it was not given out.
  const std::string* value_of(const std::string& placeholder) const;

  // How many values of each type it stands for.
  const std::map<PrivateType, std::uint32_t>& counts() const { return counts_; }
  // Values by placeholder.
  const std::map<std::string, std::string>& values() const { return values_; }
  bool empty() const { return values_.empty(); }

 private:
  bool shows_types_;
  std::set<std::string> reserved_;
  std::map<PrivateType, std::uint32_t> numbers_;
  std::map<std::pair<PrivateType, std::u32string>, std::string> given_;  // by identity
  std::map<std::string, std::string> values_;                            // by placeholder
  std::map<PrivateType, std::uint32_t> counts_;
};

// Length of every placeholder in bytes.
inline constexpr std::size_t kPlaceholderBytes = 10;
// Whether `text` has a placeholder's form, whatever the case.
bool is_placeholder(std::string_view text);

// The writer of a text in a request.
enum class Writer : std::uint8_t {
  user,      // placeholders in it are his own
  target,    // placeholders in it are those that it was sent, and what it made up nobody could mark
  function,  // that the target called, with placeholders
};

// A part of a text, which may hold marks.
struct RequestPart {
  std::string_view text;
  bool is_private = false;  // all of it
};

// Takes private text out of a request: first learn() of all its texts, since what one marks another
// may say without a mark, then check(), and then apply() to them in the same order.
class RequestMask {
 public:
  // `guard` outlives it. Requires  mode is not PrivateMode::off
  RequestMask(PrivacyGuard& guard, PrivateMode mode);
  // For the same request in another mode: it has learned what `learned` has. Requires  `learned`
  // has applied nothing yet
  RequestMask(const RequestMask& learned, PrivateMode mode);

  // Takes in what the text marks, and what detectors find of the rest. `is_private`: all of it.
  void learn(std::string_view text, bool is_private, Writer writer = Writer::user);
  // The same for the parts of a text that is read as one.
  void learn(std::span<const RequestPart> parts, Writer writer);
  // The same for a name, such as that of a property. Keys are not looked for in it, since the names
  // that programs use look like keys.
  void learn_name(std::string_view name, Writer writer = Writer::user);
  // Behind the last learn(): from here on what detectors found is private.
  //
  // Errors    usage: private text that nobody marked, in this request or before, is refused;
  //           unsupported: there is more than the guard has room for. The caller forgets what was
  //           learned of a refused request (VaultTransaction)
  Result<void> check();
  // mask, prefix: the text with placeholders; local: the text without its marks.
  std::string apply(std::string_view text, bool is_private);
  // The same of a text that is read as one, part by part. What reaches over several of them is
  // taken out of all, and its placeholder stands in the first.
  std::vector<std::string> apply(std::span<const RequestPart> parts);
  // Whether a text that has to stay as it is, and goes up, holds private text. Where such requests
  // stay on the device it is counted like the others.
  bool holds(std::string_view text);
  // Whether a text that was put together from what apply() gave still holds private text. Never
  // under local, where such text may stay in it and makes the request stay on the device.
  bool still_holds(std::string_view applied);

  struct Outcome {
    std::shared_ptr<const Placeholders> placeholders{};  // null where none was needed
    bool is_local = false;                               // there is private text, and it is to stay
  };
  // Behind the last apply().
  //
  // Errors    unsupported: there is more than there are placeholders for
  Result<Outcome> outcome() const;

 private:
  // What detectors found in a text.
  struct Detected {
    std::string text;
    Writer writer;
    std::vector<PrivateSpan> spans;
  };
  struct PlainText;

  static PlainText without_marks_of(std::span<const RequestPart> parts);
  void learn_plain(const PlainText& plain, Writer writer, bool is_name);
  void detect(const PlainText& plain, Writer writer, bool is_name);
  std::vector<PrivateSpan> private_spans(const PlainText& plain) const;
  void add_marked(std::string_view value);
  std::string unmarked() const;
  bool remember(std::span<const Detected> detected);
  void append_placeholder(std::string& to, std::string_view value, PrivateType type);

  PrivacyGuard& guard_;
  PrivateMode mode_;
  std::shared_ptr<Placeholders> placeholders_;
  std::vector<Detected> detected_;  // until check()
  // By text, so that all of it is taken out of that, even where the value alone would not be found.
  std::unordered_map<std::string, std::vector<PrivateSpan>> spans_;
  std::size_t given_before_ = 0;  // marked values of earlier requests
  bool full_ = false;
  bool found_ = false;  // under local and prefix
};

}  // namespace edgedraft
