#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace edgedraft {

// Texts that stay on the device, as fingerprints of each few words in a row: what repeats them, cut
// or quoted, is recognised.
//
// Threads   any
class LocalTexts {
 public:
  static constexpr std::size_t kWords = 5;
  static constexpr std::size_t kFingerprintsMax = 4u << 20;

  // Where there is no more room what is oldest goes. A text of fewer words says too little to be
  // recognised by.
  void add(std::string_view text);
  // Whether it holds so many words of one in a row.
  bool recognises(std::string_view text) const;

 private:
  mutable std::mutex mutex_;  // held for lookups alone, not while a text is read
  std::unordered_set<std::uint64_t> fingerprints_;
  std::deque<std::uint64_t> by_age_;  // the same
};

}  // namespace edgedraft
