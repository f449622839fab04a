#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace edgedraft {

// Texts that stay on the device, as fingerprints of each few words in a row: what repeats them, cut
// or quoted, is recognised.
class LocalTexts {
 public:
  static constexpr std::size_t kWords = 5;
  static constexpr std::size_t kFingerprintsMax = 4u << 20;

  // False if there is no more room. A text of fewer words says too little to be recognised by.
  bool add(std::string_view text);
  // Whether it holds so many words of one in a row.
  bool recognises(std::string_view text) const;

 private:
  std::unordered_set<std::uint64_t> fingerprints_;
};

}  // namespace edgedraft
