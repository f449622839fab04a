#include "shared/model/tokenizer/text_encoder.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shared/model/tokenizer/byte_letters.h"
#include "shared/model/tokenizer/merges.h"
#include "shared/model/tokenizer/pre_tokenizer.h"

namespace edgedraft {
namespace {

class ByteBpeEncoder : public TextEncoder {
 public:
  ByteBpeEncoder(const PreTokenizerRules& rules, BpeTable table)
      : pre_tokenizer_(rules),
        ignore_merges_(rules.ignore_merges),
        index_(std::move(table.index)),
        merges_(std::move(table.merges)) {
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
  EntryIndex index_;  // empty unless ignore_merges_
  Merges merges_;
  std::array<std::int64_t, 256> byte_ids_;
};

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_byte_bpe_encoder(const GgufFile& file,
                                                           const PreTokenizerRules& rules,
                                                           const Vocabulary& vocabulary) {
  auto table = read_bpe_table(file, vocabulary);
  if (!table) return table.error();
  return std::unique_ptr<TextEncoder>(std::make_unique<ByteBpeEncoder>(rules, std::move(*table)));
}

}  // namespace edgedraft
