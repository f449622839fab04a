#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/privacy/folded_text.h"
#include "client/privacy/private_span.h"
#include "client/privacy/value_index.h"
#include "shared/base/clock.h"

namespace edgedraft::client {

// Canonical form: equal for all spellings of a value. Empty for blanks and text that folding
// removes.
std::u32string canonical_value(std::string_view value, PrivateType type);

// Values that are private from the moment they are marked or detected. Clients resend conversations
// without marks and in other spellings; docs/privacy.md lists the spellings that are found. Copies
// share their storage until one of them changes.
class PrivateVault {
 public:
  // Bounds marked values, and separately detected ones.
  static constexpr std::size_t kValuesMax = 10'000;
  // Bounds names that are private from the start; counted apart from other values.
  static constexpr std::size_t kNamesMax = 10'000;
  // Bounds marked values per request. As many fit afterwards, unless all values are in use.
  static constexpr std::size_t kRequestMax = 1'000;
  // A conversation ends if none of its values occurs in a request for this long.
  static constexpr Duration kInUse = std::chrono::hours(1);

  // Sets the time of the request that values are added and found for.
  void set_now(Instant now) { now_ = now; }

  // Returns false if the vault is full. Ignores known values, blanks, and one or two ASCII
  // characters without letters or digits ("."), which occur in any text.
  bool add(std::string_view value, PrivateType type);
  // Adds a detected value, which a detector would find again. With `as_written`, values of a type
  // that is found by letters and digits alone are also found in this exact spelling, whatever
  // surrounds them.
  bool add_detected(std::string_view value, PrivateType type, bool as_written = false);
  bool add_name(std::string_view name);
  // Frees the capacity used by values from add_detected() alone.
  void forget_detected() { detected_ = std::make_shared<Values>(); }
  // Number of marked values.
  std::size_t given_count() const { return given_->all.size(); }
  // Returns a copy that another thread may use concurrently.
  PrivateVault detached() const;
  // Adds the values of such a copy, and which of them are in use. If capacity is short, earlier
  // detected values are dropped.
  void add_all(const PrivateVault& copy);
  // Frees capacity by dropping the oldest marked values of ended conversations.
  void forget_ended();

  // Returns the spans of values from left to right; overlapping values form one span. A short value
  // counts only as a separate word, so "Al" is not found in "also". Escapes, such as JSON's, are
  // decoded.
  std::vector<PrivateSpan> find(std::string_view text) const;
  struct Known {
    std::string text;  // unescaped and trimmed if it is a value only in that form
    PrivateType type;
  };
  // Returns the value that is equal to the whole of `value`.
  std::optional<Known> known_as(std::string_view value) const;
  // True if the vocabulary tokens, in some order, spell a value. Single digits are ignored, because
  // they would spell every number.
  bool is_spelled_by(std::span<const std::string> tokens) const;
  // canonical_value(), but equal for all groupings of a value found by letters and digits alone.
  std::u32string identity_of(std::string_view value, PrivateType type) const;

 private:
  struct Value {
    PrivateType type;
    Instant used;
  };
  // Values in one form: as written, or as letters and digits alone.
  struct Forms {
    void add(const std::u32string& text, std::uint32_t value);
    void make_index();

    std::unordered_map<std::u32string, std::uint32_t> known;  // with the index in `all`
    // Index over `known`, built on demand by a search.
    std::vector<std::pair<std::u32string_view, std::uint32_t>> indexed;
    ValueIndex index;
    bool is_indexed = true;
  };
  struct Values {
    std::vector<Value> all;
    Forms written;
    Forms compacted;
  };
  // A text in one form.
  struct Searched {
    const FoldedText& text;
    PrefixHashes hashes;
  };

  bool add_to(std::shared_ptr<Values>& values, std::size_t count_max, std::string_view value,
              PrivateType type, bool as_written);
  // Copies the values that `stays` selects.
  template <typename Stays>
  static std::shared_ptr<Values> copy_of(const Values& values, Stays stays);
  // Names are shared by all copies, and always in use.
  void use(Values& values, std::uint32_t number) const {
    if (&values != names_.get()) values.all[number].used = now_;
  }
  bool has_values() const {
    return !given_->all.empty() || !detected_->all.empty() || !names_->all.empty();
  }
  // Like find(), but does not decode escapes.
  std::vector<PrivateSpan> find_literally(std::string_view text) const;
  bool knows_compacted(const std::u32string& text) const;
  void find_in(const Searched& searched, Values& values, bool compacted,
               std::vector<PrivateSpan>& found) const;

  // Mutable because searches build indexes and record which values are in use.
  std::shared_ptr<Values> given_ = std::make_shared<Values>();
  std::shared_ptr<Values> detected_ = std::make_shared<Values>();
  std::shared_ptr<Values> names_ = std::make_shared<Values>();
  Instant now_{};
};

// Scope of a request. Unless it is accepted, the vault forgets what it learned in it.
class VaultTransaction {
 public:
  explicit VaultTransaction(PrivateVault& vault) : vault_(vault), before_(vault) {}
  ~VaultTransaction() {
    if (!is_kept_) vault_ = std::move(before_);
  }
  VaultTransaction(const VaultTransaction&) = delete;
  VaultTransaction& operator=(const VaultTransaction&) = delete;

  void keep() {
    is_kept_ = true;
    vault_.forget_ended();
  }

 private:
  PrivateVault& vault_;
  PrivateVault before_;
  bool is_kept_ = false;
};

// Sorts spans and merges those that overlap. A merged span has the type of the longest; on a tie, a
// type other than `text` wins.
void join_overlapping(std::vector<PrivateSpan>& spans);

// True if one span covers all of `span`. Requires  `spans` sorted, without overlap
bool is_covered_by(std::span<const PrivateSpan> spans, const PrivateSpan& span);

}  // namespace edgedraft::client
