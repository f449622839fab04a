#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace edgedraft::client {

// Texts that stay on the device, stored as fingerprints of every kWords words in a row. Recognises
// repetitions of them, cut or quoted.
//
// Threads   any
class LocalTexts {
 public:
  static constexpr std::size_t kWords = 5;
  static constexpr std::size_t kFingerprintsMax = 4u << 20;

  // Adds a text; beyond the capacity, the oldest fingerprints are dropped. Texts with fewer than
  // kWords words cannot be recognised and are ignored.
  void add(std::string_view text);
  // True if it repeats kWords words in a row of a stored text.
  bool recognises(std::string_view text) const;

 private:
  mutable std::mutex mutex_;  // held for lookups only, not while a text is read
  std::unordered_set<std::uint64_t> fingerprints_;
  std::deque<std::uint64_t> by_age_;  // by age, oldest first
};

}  // namespace edgedraft::client
