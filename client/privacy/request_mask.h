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

namespace edgedraft::client {

// Placeholders of one request and their values. They are numbered by first use, so a growing
// conversation keeps them, and the numbers reveal nothing about other conversations.
class Placeholders {
 public:
  static constexpr std::uint32_t kCountMax = 999;  // per type, so that all have the same size

  // With `shows_types` "[MAIL_001]", else "[TEXT_001]".
  explicit Placeholders(bool shows_types) : shows_types_(shows_types) {}

  // Excludes placeholders that occur in `text` itself. Call before the first of().
  void reserve(std::string_view text);
  // Returns the placeholder of a value, equal for all values with the same `identity`; empty if
  // none are left.
  std::string of(std::string_view value, PrivateType type, const std::u32string& identity);
  // Returns the placeholder's value; null if it was not assigned.
  const std::string* value_of(const std::string& placeholder) const;

  // Number of values per type.
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
// True if `text` has the form of a placeholder, in any case.
bool is_placeholder(std::string_view text);

// Author of a text in a request.
enum class Writer : std::uint8_t {
  user,      // placeholders in it are the user's own text
  target,    // placeholders in it were sent to it; the user could not mark what it made up
  function,  // a function that the target called, with placeholders
};

// Part of a text, possibly with marks.
struct RequestPart {
  std::string_view text;
  bool is_private = false;  // as a whole
};

// Takes private text out of a request. First call learn() for all texts, because a value marked in
// one may occur unmarked in another. Then check(), then apply() to the texts in the same order.
class RequestMask {
 public:
  // `guard` must outlive it. Requires  mode is not PrivateMode::off
  RequestMask(PrivacyGuard& guard, PrivateMode mode);
  // Continues `learned`'s request in another mode.
  // Requires  `learned` has applied nothing yet
  RequestMask(const RequestMask& learned, PrivateMode mode);

  // Learns marked values, and detected values of the rest. `is_private` marks all of it.
  void learn(std::string_view text, bool is_private, Writer writer = Writer::user);
  // Like above, for parts that are read as one text.
  void learn(std::span<const RequestPart> parts, Writer writer);
  // Like above, for a name such as a property's. Does not detect keys, because programs use names
  // that look like keys.
  void learn_name(std::string_view name, Writer writer = Writer::user);
  // Call after the last learn(): makes the detected values private.
  //
  // Errors    usage: unmarked private text, in a mode that refuses it; unsupported: too many values
  //           for the guard. The caller drops the values learned from a refused request
  //           (VaultTransaction)
  Result<void> check();
  // Returns the text with placeholders (mask, prefix), or without its marks (local).
  std::string apply(std::string_view text, bool is_private);
  // Applies to parts that are read as one text. A value across several parts is removed from all of
  // them, and its placeholder is put in the first.
  std::vector<std::string> apply(std::span<const RequestPart> parts);
  // True if a text that must be sent unchanged holds private text. In modes that keep such requests
  // on the device, it counts like other private text.
  bool holds(std::string_view text);
  // True if text assembled from results of apply() still holds private text. Always false under
  // local, where private text only makes the request stay on the device.
  bool still_holds(std::string_view applied);

  struct Outcome {
    std::shared_ptr<const Placeholders> placeholders{};  // null if none was needed
    bool is_local = false;  // it holds private text and must stay on the device
  };
  // Call after the last apply().
  //
  // Errors    unsupported: more values than placeholders
  Result<Outcome> outcome() const;

 private:
  // Spans that detectors found in a text.
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
  // By text. The spans are removed from it even if the value alone would not be found.
  std::unordered_map<std::string, std::vector<PrivateSpan>> spans_;
  std::size_t given_before_ = 0;  // marked values of earlier requests
  bool full_ = false;
  bool found_ = false;  // used under local and prefix
};

}  // namespace edgedraft::client
