#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/model/tokenizer/merges.h"
#include "shared/model/tokenizer/pre_tokenizer.h"
#include "shared/model/tokenizer/space_rule.h"
#include "shared/model/tokenizer/text_encoder.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

std::string spelling_of_byte(unsigned byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

class PlainBpeEncoder : public TextEncoder {
 public:
  PlainBpeEncoder(const PreTokenizerRules& rules, BpeTable table)
      : pre_tokenizer_(rules), table_(std::move(table)) {
    for (unsigned byte = 0; byte < byte_ids_.size(); ++byte) {
      byte_ids_[byte] = find(spelling_of_byte(byte));
    }
  }

  void encode(std::string_view text, std::vector<std::uint32_t>& ids) const override {
    std::vector<std::uint32_t> word_ids;
    pre_tokenizer_.split(with_space_marks(text), [&](std::string_view word) {
      // Files may lack the merges of line ends.
      if (word.find_first_not_of('\n') == word.npos) {
        if (const auto whole = find(word)) return ids.push_back(*whole);
      }
      word_ids.clear();
      while (!word.empty()) {
        const std::string_view character = word.substr(0, utf8_front(word).byte_count);
        add_character(character, word_ids);
        word.remove_prefix(character.size());
      }
      table_.merges.apply(word_ids);
      ids.insert(ids.end(), word_ids.begin(), word_ids.end());
    });
  }

  std::string bytes_of(std::string_view text) const override { return without_space_marks(text); }

 private:
  std::optional<std::uint32_t> find(std::string_view text) const {
    const auto found = table_.index.find(text);
    return found == table_.index.end() ? std::nullopt : std::optional(found->second);
  }

  void add_character(std::string_view character, std::vector<std::uint32_t>& ids) const {
    if (const auto id = find(character)) return ids.push_back(*id);
    for (const char byte : character) {
      if (const auto id = byte_ids_[static_cast<unsigned char>(byte)]) ids.push_back(*id);
    }
  }

  PreTokenizer pre_tokenizer_;
  BpeTable table_;
  std::array<std::optional<std::uint32_t>, 256> byte_ids_;
};

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_plain_bpe_encoder(const GgufFile& file,
                                                            const PreTokenizerRules& rules,
                                                            const Vocabulary& vocabulary) {
  auto table = read_bpe_table(file, vocabulary);
  if (!table) return table.error();
  return std::unique_ptr<TextEncoder>(std::make_unique<PlainBpeEncoder>(rules, std::move(*table)));
}

}  // namespace edgedraft
