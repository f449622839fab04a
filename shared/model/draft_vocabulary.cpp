#include "shared/model/draft_vocabulary.h"

#include <string>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

Error bad_vocabulary(std::string message) {
  return {Errc::bad_file, std::string(kDraftVocabularyKey) + " " + std::move(message)};
}

}  // namespace

Result<std::vector<std::uint32_t>> read_draft_tokens(const GgufFile& file,
                                                     std::uint32_t vocabulary_count) {
  const GgufValue* value = file.find_value(kDraftVocabularyKey);
  if (value == nullptr) return std::vector<std::uint32_t>();
  if (value->type == GgufType::array && (value->count == 0 || value->count > vocabulary_count)) {
    return bad_vocabulary("has " + std::to_string(value->count) + " entries for a vocabulary of " +
                          std::to_string(vocabulary_count));
  }
  const auto differences = file.get_i32s(kDraftVocabularyKey);
  if (!differences) return differences.error();
  std::vector<std::uint32_t> tokens;
  tokens.reserve(differences->size());
  std::int64_t least = 0;
  for (const std::int32_t difference : *differences) {
    const std::int64_t token = static_cast<std::int64_t>(tokens.size()) + difference;
    if (token < 0 || token >= vocabulary_count) {
      return bad_vocabulary("lists the token " + std::to_string(token) +
                            ", outside the vocabulary of " + std::to_string(vocabulary_count) +
                            " tokens");
    }
    if (token < least) {
      return bad_vocabulary("lists the token " + std::to_string(token) + " twice or out of order");
    }
    least = token + 1;
    tokens.push_back(static_cast<std::uint32_t>(token));
  }
  return tokens;
}

std::vector<std::int32_t> to_d2t(std::span<const std::uint32_t> tokens) {
  std::vector<std::int32_t> differences;
  differences.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EDGEDRAFT_CHECK(i == 0 || tokens[i - 1] < tokens[i]);
    differences.push_back(static_cast<std::int32_t>(tokens[i] - i));
  }
  return differences;
}

}  // namespace edgedraft
