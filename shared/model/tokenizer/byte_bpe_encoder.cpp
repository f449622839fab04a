#include "shared/model/tokenizer/text_encoder.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shared/model/tokenizer/byte_letters.h"
#include "shared/model/tokenizer/pre_tokenizer.h"

namespace edgedraft {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// A symbol of the word; a merge adds the right one's span to the left one.
struct Symbol {
  std::uint32_t id;
  std::size_t previous;
  std::size_t next;
  bool alive = true;
};

// Two neighbours at the time they were found.
struct Candidate {
  std::uint32_t rank;
  std::size_t left;
  std::uint32_t left_id;
  std::uint32_t right_id;
  std::uint32_t merged;

  // std::priority_queue returns the greatest.
  bool operator<(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

// Merges of byte-pair encoding, in order of priority.
class Merges {
 public:
  void reserve(std::size_t count) { table_.reserve(count); }
  // Adds the next merge. Of merges of the same pair the first counts.
  void add(std::uint32_t left, std::uint32_t right, std::uint32_t merged);

  // Merges neighbours in `ids`, earliest merge first, ties leftmost, until none applies.
  // Cost      n log n
  void apply(std::vector<std::uint32_t>& ids) const;

 private:
  struct Merge {
    std::uint32_t rank;
    std::uint32_t merged;
  };
  const Merge* find(std::uint32_t left, std::uint32_t right) const;

  std::unordered_map<std::uint64_t, Merge> table_;
  std::uint32_t next_rank_ = 0;
};

void Merges::add(std::uint32_t left, std::uint32_t right, std::uint32_t merged) {
  table_.try_emplace(key_of(left, right), Merge{next_rank_++, merged});
}

const Merges::Merge* Merges::find(std::uint32_t left, std::uint32_t right) const {
  const auto found = table_.find(key_of(left, right));
  return found == table_.end() ? nullptr : &found->second;
}

void Merges::apply(std::vector<std::uint32_t>& ids) const {
  if (ids.size() < 2) return;
  std::vector<Symbol> symbols;
  symbols.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    symbols.push_back({ids[i], i == 0 ? kNone : i - 1, i + 1 == ids.size() ? kNone : i + 1});
  }
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::size_t left, std::size_t right) {
    if (left == kNone || right == kNone) return;
    const std::uint32_t left_id = symbols[left].id;
    const std::uint32_t right_id = symbols[right].id;
    if (const Merge* merge = find(left_id, right_id)) {
      queue.push({merge->rank, left, left_id, right_id, merge->merged});
    }
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) consider(i, i + 1);

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.left];
    if (!left.alive || left.id != best.left_id || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    if (right.id != best.right_id) continue;  // merged in the meantime
    right.alive = false;
    left.id = best.merged;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }

  ids.clear();
  for (std::size_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
}

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
