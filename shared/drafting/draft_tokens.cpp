#include "shared/drafting/draft_tokens.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "shared/base/bytes.h"
#include "shared/model/draft_vocabulary.h"

namespace edgedraft {
namespace {

Error wrong_table(std::string message) {
  return {Errc::bad_file, std::string(kGgufTokenTable) + " " + std::move(message)};
}

// Elements of a table of I64 or I32; too many are refused before they are read.
template <class T>
Result<std::vector<std::int64_t>> table_of(ByteView bytes, std::uint32_t vocabulary_count) {
  const std::size_t count = bytes.size() / sizeof(T);
  if (count > vocabulary_count) {
    return wrong_table("has " + std::to_string(count) + " entries for a vocabulary of " +
                       std::to_string(vocabulary_count));
  }
  std::vector<std::int64_t> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(load_le<T>(&bytes[i * sizeof(T)]));
  }
  return values;
}

}  // namespace

PlannedTensor* find_planned(ModelPlan& plan, std::string_view name) {
  const auto found = std::ranges::find_if(
      plan.tensors, [&](const PlannedTensor& tensor) { return tensor.info.name == name; });
  return found == plan.tensors.end() ? nullptr : &*found;
}

Result<DraftTokenTable> read_draft_table(const GgufFile& file, std::uint32_t vocabulary_count) {
  if (file.token_table().empty()) return DraftTokenTable();
  auto tokens = table_of<std::int64_t>(file.token_table(), vocabulary_count);
  if (!tokens) return tokens.error();
  return DraftTokenTable(std::move(*tokens));
}

Result<DraftTokenTable> read_draft_table(const SafetensorsModel& checkpoint,
                                         std::uint32_t vocabulary_count) {
  const SafetensorsTensor* const table = checkpoint.find(std::string(kGgufTokenTable));
  if (table == nullptr) return DraftTokenTable();
  const bool is_wide = table->type == "I64";
  if (!is_wide && table->type != "I32") {
    return wrong_table("is stored as " + table->type + "; it must be I64 or I32");
  }
  auto tokens = is_wide ? table_of<std::int64_t>(table->bytes, vocabulary_count)
                        : table_of<std::int32_t>(table->bytes, vocabulary_count);
  if (!tokens) return tokens.error();
  const auto outside = static_cast<std::int64_t>(vocabulary_count);
  for (std::size_t row = 0; row < tokens->size(); ++row) {
    std::int64_t& token = (*tokens)[row];
    // A difference far outside the vocabulary stays outside, without overflow.
    token = std::clamp(token, -2 * outside, outside) + static_cast<std::int64_t>(row);
  }
  return DraftTokenTable(std::move(*tokens));
}

void leave_out_draft_tokens(CheckpointReader& reader) {
  for (const char* table : {"d2t", "t2d"}) reader.leave_out_all(table);
}

Result<void> set_draft_tokens(const DraftTokenTable& table, std::uint32_t vocabulary_count,
                              ModelPlan& plan) {
  if (!table) return {};
  const std::vector<std::int64_t>& tokens = *table;
  PlannedTensor* const head = find_planned(plan, "output.weight");
  if (head == nullptr) return wrong_table("belongs to a head, which the drafter does not have");
  if (head->info.dims.size() != 2 || head->info.dims[1] != tokens.size()) {
    return wrong_table("has " + std::to_string(tokens.size()) +
                       " entries, not one per row of the head");
  }
  std::vector<std::pair<std::uint32_t, std::size_t>> order;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (tokens[row] < 0 || tokens[row] >= vocabulary_count) {
      return wrong_table("lists the token " + std::to_string(tokens[row]) +
                         ", outside the target's vocabulary of " +
                         std::to_string(vocabulary_count) + " tokens");
    }
    order.emplace_back(static_cast<std::uint32_t>(tokens[row]), row);
  }
  std::ranges::sort(order);
  std::vector<std::uint32_t> sorted;
  bool is_moved = false;
  for (const auto& [token, row] : order) {
    if (!sorted.empty() && sorted.back() == token) {
      return wrong_table("lists the token " + std::to_string(token) + " twice");
    }
    is_moved = is_moved || row != sorted.size();
    sorted.push_back(token);
  }
  if (is_moved) {
    const std::size_t row_size = head->source.size() / tokens.size();
    Bytes& rows = plan.made.emplace_back();
    rows.reserve(head->source.size());
    for (const auto& [token, row] : order) {
      const ByteView from = head->source.subspan(row * row_size, row_size);
      rows.insert(rows.end(), from.begin(), from.end());
    }
    head->source = rows;
  }
  if (sorted.size() < vocabulary_count) {
    plan.metadata.set_i32s(std::string(kDraftVocabularyKey), to_d2t(sorted));
  }
  return {};
}

}  // namespace edgedraft
