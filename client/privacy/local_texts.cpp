#include "client/privacy/local_texts.h"

#include <algorithm>
#include <vector>

#include "client/privacy/folded_text.h"
#include "shared/base/random.h"

namespace edgedraft::client {
namespace {

// Words of letters and digits. In scripts without spaces, each letter is a word.
std::vector<std::uint64_t> words_of(std::string_view text) {
  std::vector<std::uint64_t> words;
  bool within = false;
  for (const char32_t character : fold(text).text) {
    if (!is_letter_or_digit(character)) {
      within = false;
      continue;
    }
    const bool is_word = is_unspaced(character);
    if (!within || is_word) words.push_back(0);
    within = !is_word;
    words.back() = mix64(words.back() + character + 1);
  }
  return words;
}

// Hashes of every kWords words in a row.
std::vector<std::uint64_t> runs_of(std::string_view text) {
  const auto words = words_of(text);
  std::vector<std::uint64_t> runs;
  for (std::size_t begin = 0; begin + LocalTexts::kWords <= words.size(); ++begin) {
    runs.push_back(0);
    for (std::size_t i = 0; i < LocalTexts::kWords; ++i) {
      runs.back() = mix64(runs.back() + words[begin + i]);
    }
  }
  return runs;
}

}  // namespace

void LocalTexts::add(std::string_view text) {
  const auto runs = runs_of(text);
  const std::scoped_lock lock(mutex_);
  for (const std::uint64_t run : runs) {
    if (!fingerprints_.insert(run).second) continue;
    by_age_.push_back(run);
    if (by_age_.size() <= kFingerprintsMax) continue;
    fingerprints_.erase(by_age_.front());
    by_age_.pop_front();
  }
}

bool LocalTexts::recognises(std::string_view text) const {
  {
    const std::scoped_lock lock(mutex_);
    if (fingerprints_.empty()) return false;
  }
  const auto runs = runs_of(text);
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(runs, [&](std::uint64_t run) { return fingerprints_.contains(run); });
}

}  // namespace edgedraft::client
