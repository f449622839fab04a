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

namespace edgedraft {

// What is equal here is the same value, however it is written. Empty for what says nothing: blanks,
// and what folding leaves out.
std::u32string canonical_value(std::string_view value, PrivateType type);

// Values that are private from the moment they were marked or detected. Clients send a conversation
// again and again, without marks and in other spellings: docs/privacy.md says in which a value is
// found. A copy shares what it holds until one of the two changes.
class PrivateVault {
 public:
  // Of those that were marked, and of those that were detected.
  static constexpr std::size_t kValuesMax = 10'000;
  // Names that are private from the start, which take no other value's room.
  static constexpr std::size_t kNamesMax = 10'000;
  // Marked values of one request. As many have room again behind it, unless all are in use.
  static constexpr std::size_t kRequestMax = 1'000;
  // A conversation ends when none of its values was in a request for so long.
  static constexpr Duration kInUse = std::chrono::hours(1);

  // Time of the request that values are added and found for.
  void set_now(Instant now) { now_ = now; }

  // False if it is full. Not added is what is known, what says nothing, and one or two signs of
  // ASCII ("."), which would be found in all text.
  bool add(std::string_view value, PrivateType type);
  // The same for what a detector found, and would find again. `as_written`: it is found as it is
  // written, too, whatever stands around it, where its type says that it is found by its letters
  // and digits alone.
  bool add_detected(std::string_view value, PrivateType type, bool as_written = false);
  bool add_name(std::string_view name);
  // Makes room of what came by add_detected() alone.
  void forget_detected() { detected_ = std::make_shared<Values>(); }
  // How many marked values it holds.
  std::size_t given_count() const { return given_->all.size(); }
  // A copy that another thread may use at the same time.
  PrivateVault detached() const;
  // All that such a copy holds, and which of them are in use. What detectors found before makes
  // room where there is none.
  void add_all(const PrivateVault& copy);
  // Makes that room: of values that were marked, the oldest of ended conversations go.
  void forget_ended();

  // Where values stand, from left to right; values that overlap are one span. A short value counts
  // only where it is a word of its own, so that "Al" is not found in "also". Escapes, as of JSON,
  // stand for what they mean.
  std::vector<PrivateSpan> find(std::string_view text) const;
  struct Known {
    std::string text;  // its escapes read, but for blanks around it, if it is a value only so
    PrivateType type;
  };
  // What is a value from its beginning to its end.
  std::optional<Known> known_as(std::string_view value) const;
  // Whether tokens of a vocabulary spell a value, whatever their order. Single digits spell none:
  // they would spell every number.
  bool is_spelled_by(std::span<const std::string> tokens) const;
  // That of canonical_value(), and the same however a value is grouped that is found so.
  std::u32string identity_of(std::string_view value, PrivateType type) const;

 private:
  struct Value {
    PrivateType type;
    Instant used;
  };
  // Values in one form: as they are written, or as letters and digits alone.
  struct Forms {
    void add(const std::u32string& text, std::uint32_t value);
    void make_index();

    std::unordered_map<std::u32string, std::uint32_t> known;  // and which value of `all` it is
    // Of `known`, made when a text is looked through.
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
  // Those of them that stay.
  template <typename Stays>
  static std::shared_ptr<Values> copy_of(const Values& values, Stays stays);
  // Names are common to all copies, and always in use.
  void use(Values& values, std::uint32_t number) const {
    if (&values != names_.get()) values.all[number].used = now_;
  }
  bool has_values() const {
    return !given_->all.empty() || !detected_->all.empty() || !names_->all.empty();
  }
  // The same as find(), but that escapes are characters like others.
  std::vector<PrivateSpan> find_literally(std::string_view text) const;
  bool knows_compacted(const std::u32string& text) const;
  void find_in(const Searched& searched, Values& values, bool compacted,
               std::vector<PrivateSpan>& found) const;

  // Looking a text through makes their indexes, and notes that values are in use.
  std::shared_ptr<Values> given_ = std::make_shared<Values>();
  std::shared_ptr<Values> detected_ = std::make_shared<Values>();
  std::shared_ptr<Values> names_ = std::make_shared<Values>();
  Instant now_{};
};

// A request: what the vault learned of it is forgotten at its end, unless it was accepted and kept.
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

// Sorts spans and makes one of those that overlap, of the longest one's type, or of two as long of
// the one that says more than `text`: what any of them covers stays covered.
void join_overlapping(std::vector<PrivateSpan>& spans);

// Whether one of them covers all of `span`. Requires  they are sorted, and none overlaps another
bool is_covered_by(std::span<const PrivateSpan> spans, const PrivateSpan& span);

}  // namespace edgedraft
