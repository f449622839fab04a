#include "shared/model/tokenizer/byte_bpe_encoder.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "shared/model/tokenizer/byte_letters.h"
#include "shared/model/tokenizer/merges.h"
#include "shared/model/tokenizer/pre_tokenizer.h"

namespace edgedraft {
namespace {

using Index = std::unordered_map<std::string_view, std::uint32_t>;

// Among entries of equal spelling the first counts.
Index index_of(const Vocabulary& vocabulary) {
  Index index;
  index.reserve(vocabulary.texts.size());
  for (std::size_t i = 0; i < vocabulary.texts.size(); ++i) {
    if (vocabulary.types[i] == TokenType::unused) continue;
    index.try_emplace(vocabulary.texts[i], static_cast<std::uint32_t>(i));
  }
  return index;
}

// Lines "left right", in the vocabulary's spelling. Merges into control tokens are skipped: no text
// may become one.
Result<Merges> read_merges(const GgufFile& file, const Vocabulary& vocabulary, const Index& index) {
  const auto lines = file.get_strings("tokenizer.ggml.merges");
  if (!lines) return lines.error();
  Merges merges;
  merges.reserve(lines->size());
  for (const std::string_view line : *lines) {
    const std::size_t space = line.find(' ', 1);
    const Error wrong{Errc::bad_file, "the merge '" + std::string(line.substr(0, 80)) +
                                          "' uses an entry that is not in the vocabulary"};
    if (space == line.npos) return wrong;
    const std::string_view left = line.substr(0, space);
    const std::string_view right = line.substr(space + 1);
    const auto left_id = index.find(left);
    const auto right_id = index.find(right);
    if (left_id == index.end() || right_id == index.end()) return wrong;
    const auto merged = index.find(std::string(left) += right);
    if (merged == index.end()) return wrong;
    if (vocabulary.is_control(merged->second)) continue;
    merges.add(left_id->second, right_id->second, merged->second);
  }
  return merges;
}

class ByteBpeEncoder : public TextEncoder {
 public:
  ByteBpeEncoder(const PreTokenizerRules& rules, Index index, Merges merges)
      : pre_tokenizer_(rules),
        ignore_merges_(rules.ignore_merges),
        index_(std::move(index)),
        merges_(std::move(merges)) {
    for (unsigned byte = 0; byte < byte_ids_.size(); ++byte) {
      const auto found = index_.find(letter_of(static_cast<unsigned char>(byte)));
      byte_ids_[byte] = found == index_.end() ? kNoId : std::int64_t{found->second};
    }
    if (!ignore_merges_) index_ = {};
  }

  void encode(std::string_view text, std::vector<std::uint32_t>& ids) const override {
    std::vector<std::uint32_t> word_ids;
    pre_tokenizer_.split(text, [&](std::string_view word) {
      if (ignore_merges_) {
        if (const auto found = index_.find(to_letters(word)); found != index_.end()) {
          ids.push_back(found->second);
          return;
        }
      }
      word_ids.clear();
      for (const char byte : word) {
        const std::int64_t id = byte_ids_[static_cast<unsigned char>(byte)];
        if (id != kNoId) word_ids.push_back(static_cast<std::uint32_t>(id));
      }
      merges_.apply(word_ids);
      ids.insert(ids.end(), word_ids.begin(), word_ids.end());
    });
  }

  std::string bytes_of(std::string_view text) const override {
    // An added token may have characters that stand for no byte; it then is literal text.
    return from_letters(text).value_or(std::string(text));
  }

 private:
  static constexpr std::int64_t kNoId = -1;

  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  Index index_;  // empty unless ignore_merges_
  Merges merges_;
  std::array<std::int64_t, 256> byte_ids_;
};

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_byte_bpe_encoder(const GgufFile& file,
                                                           const PreTokenizerRules& rules,
                                                           const Vocabulary& vocabulary) {
  Index index = index_of(vocabulary);
  auto merges = read_merges(file, vocabulary, index);
  if (!merges) return merges.error();
  std::erase_if(index, [&](const auto& entry) { return vocabulary.is_control(entry.second); });
  return std::unique_ptr<TextEncoder>(
      std::make_unique<ByteBpeEncoder>(rules, std::move(index), std::move(*merges)));
}

}  // namespace edgedraft
