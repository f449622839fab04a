#include "shared/model/convert/reduced_head.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "shared/base/progress.h"
#include "shared/model/draft_vocabulary.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::size_t kBlockBytes = 1u << 20;

bool is_always_kept(const Tokenizer& tokenizer, std::uint32_t token) {
  return tokenizer.is_end(token) || tokenizer.token_type(token) == TokenType::control;
}

// Position for cutting a text while splitting few or no words: after a line, before a space, or at
// the end.
std::size_t cut_of(const std::string& text) {
  if (const std::size_t line = text.rfind('\n'); line != std::string::npos) return line + 1;
  const std::size_t space = text.rfind(' ');
  return space == std::string::npos || space == 0 ? text.size() : space;
}

// Adds the number of occurrences of each token in a text. `name` is its option and path.
Result<void> count_tokens(const Tokenizer& tokenizer, const std::filesystem::path& path,
                          const std::string& name, std::vector<std::uint64_t>& counts) {
  std::error_code unknown;  // opening reports the error; a pipe has no length
  if (std::filesystem::is_directory(path, unknown)) {
    return Error{Errc::io, name + ": is a folder; give a text file"};
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{Errc::io, name + ": " + std::generic_category().message(errno)};
  const std::uintmax_t bytes = std::filesystem::file_size(path, unknown);
  Progress progress("counting tokens", unknown ? 0 : bytes);
  std::string text;
  std::string block(kBlockBytes, '\0');
  const auto count = [&](std::string_view piece) {
    for (const std::uint32_t token : tokenizer.encode(piece, Special::parse)) ++counts[token];
  };
  while (in.read(block.data(), kBlockBytes) || in.gcount() > 0) {
    const auto read = static_cast<std::size_t>(in.gcount());
    text.append(block, 0, read);
    const std::size_t cut = in.eof() ? text.size() : cut_of(text);
    count(std::string_view(text).substr(0, cut));
    text.erase(0, cut);
    progress.advance(read);
  }
  if (in.bad()) return Error{Errc::io, name + ": cannot be read"};
  return {};
}

}  // namespace

Result<DraftTokens> choose_draft_tokens(const Tokenizer& tokenizer,
                                        const DraftTokenOptions& options) {
  const std::uint32_t vocabulary_count = tokenizer.vocabulary_count();
  std::vector<std::uint32_t> order(vocabulary_count);
  std::iota(order.begin(), order.end(), 0u);
  const auto first_free =
      std::stable_partition(order.begin(), order.end(),
                            [&](std::uint32_t token) { return is_always_kept(tokenizer, token); });
  const auto kept_count = static_cast<std::uint32_t>(first_free - order.begin());
  const std::uint32_t least = std::max(kept_count, 1u);
  if (options.count < least || options.count > vocabulary_count) {
    return Error{Errc::usage, std::string(options.count_option) + " " +
                                  std::to_string(options.count) + ": give a number from " +
                                  std::to_string(least) +
                                  " (the model's control tokens are always kept) to " +
                                  std::to_string(vocabulary_count) + ", its whole vocabulary"};
  }
  std::vector<std::uint64_t> counts(vocabulary_count);
  for (const std::filesystem::path& text : options.texts) {
    const std::string name = std::string(options.text_option) + " " + text.string();
    if (auto counted = count_tokens(tokenizer, text, name, counts); !counted) {
      return counted.error();
    }
  }
  const auto sum_of = [&](auto first, auto last) {
    return std::accumulate(first, last, std::uint64_t{0},
                           [&](std::uint64_t sum, std::uint32_t t) { return sum + counts[t]; });
  };
  DraftTokens chosen;
  chosen.corpus_tokens = sum_of(first_free, order.end());
  if (!options.texts.empty() && chosen.corpus_tokens == 0) {
    return Error{Errc::usage, std::string(options.text_option) + " " +
                                  options.texts.front().string() +
                                  ": contains no text; give text similar to what the drafter will "
                                  "write, at least a few hundred kilobytes"};
  }
  std::stable_sort(first_free, order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return counts[a] > counts[b]; });
  chosen.covered = sum_of(first_free, order.begin() + options.count);
  order.resize(options.count);
  std::sort(order.begin(), order.end());
  chosen.tokens = std::move(order);
  return chosen;
}

Result<void> reduce_head(const std::vector<std::uint32_t>& tokens, ModelPlan& plan) {
  const std::string key(kDraftVocabularyKey);
  if (plan.metadata.values().contains(key)) {
    return Error{Errc::unsupported,
                 "the drafter's vocabulary is already reduced; start from the full drafter"};
  }
  PlannedTensor* const head = find_head(plan);
  if (head == nullptr) return missing_tensor("token_embd.weight");
  const bool is_tied = head->info.name != "output.weight";
  const std::vector<std::uint64_t>& dims = head->info.dims;
  if (dims.size() != 2 || dims[1] <= tokens.back()) {
    return Error{Errc::bad_file, "the tokenizer and the head differ in vocabulary size"};
  }
  const std::uint64_t row = head->source.size() / dims[1];
  Bytes& rows = plan.made.emplace_back();
  rows.reserve(tokens.size() * row);
  for (const std::uint32_t token : tokens) {
    const ByteView source = head->source.subspan(token * row, row);
    rows.insert(rows.end(), source.begin(), source.end());
  }
  PlannedTensor reduced{
      .info = {.name = "output.weight", .type = head->info.type, .dims = {dims[0], tokens.size()}},
      .source_type = head->source_type,
      .source = rows};
  if (is_tied) {
    plan.tensors.push_back(std::move(reduced));
  } else {
    *head = std::move(reduced);
  }
  plan.metadata.set_i32s(key, to_d2t(tokens));
  return {};
}

}  // namespace edgedraft
