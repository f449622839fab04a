#include "client/experiments/oracle_drafter.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/base/check.h"
#include "shared/base/random.h"
#include "shared/base/text_file.h"
#include "shared/protocol/limits.h"

namespace edgedraft {
namespace {

constexpr std::uint64_t kAnswerBytesMax = 64u << 20;
// All but impossible, and finite.
constexpr float kUnlikely = -1e9f;

}  // namespace

Result<std::vector<std::uint32_t>> read_answer_tokens(const std::filesystem::path& file) {
  const auto text = read_text(file, kAnswerBytesMax);
  if (!text) return text.error();
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const Error wrong{Errc::usage, file.string() +
                                     ": no answer; give what `edgedraft run --plain --json` "
                                     "printed for the same prompt"};
  if (!json.is_object() || !json.contains("tokens") || !json["tokens"].is_array()) return wrong;
  std::vector<std::uint32_t> tokens;
  for (const auto& token : json["tokens"]) {
    if (!token.is_number_unsigned() || token.get<std::uint64_t>() >= kTokenIdEnd) return wrong;
    tokens.push_back(token.get<std::uint32_t>());
  }
  if (tokens.empty()) return wrong;
  return tokens;
}

OracleDrafter::OracleDrafter(OracleOptions options, std::uint32_t vocabulary_count,
                             std::uint32_t activation_cols)
    : options_(std::move(options)),
      vocabulary_count_(vocabulary_count),
      activation_cols_(activation_cols) {
  EDGEDRAFT_CHECK(vocabulary_count > kTreeBreadthMax);
}

void OracleDrafter::append(std::span<const std::uint32_t> tokens) {
  count_ += static_cast<std::uint32_t>(tokens.size());
  if (prompt_count_ == 0) prompt_count_ = count_;
}

void OracleDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= count_);
  count_ = count;
}

std::uint32_t OracleDrafter::proposal(std::size_t index) const {
  // An answer of another model could hold any id.
  const std::uint32_t right = options_.answer[index] % vocabulary_count_;
  return uniform_at(options_.seed, index) < options_.acceptance ? right
                                                                : (right + 1) % vocabulary_count_;
}

bool OracleDrafter::grow(TreeGrowth& growth, const GrowthBudget&) {
  EDGEDRAFT_CHECK(count_ >= prompt_count_ && prompt_count_ > 0);
  growth.clear();
  growth.finish();
  const TreeShape& shape = growth.shape();
  const std::size_t first = count_ - prompt_count_;
  const std::size_t left =
      first < options_.answer.size() ? options_.answer.size() - first : std::size_t{0};
  const auto levels =
      static_cast<std::uint32_t>(std::min<std::size_t>({shape.depth, shape.nodes, left}));
  // Ids are those of the path: it is added first.
  const auto right = static_cast<float>(std::log(options_.acceptance));
  for (std::uint32_t level = 0; level < levels; ++level) {
    growth.add(proposal(first + level), level, right);
  }
  for (std::uint32_t sibling = 2; sibling <= shape.breadth; ++sibling) {
    for (std::uint32_t level = 0; level < levels; ++level) {
      if (growth.candidate_count() == shape.nodes) return true;
      growth.add((options_.answer[first + level] + sibling) % vocabulary_count_, level, kUnlikely);
    }
  }
  return true;
}

std::span<const float> OracleDrafter::next_logits() {
  const std::size_t index = count_ - prompt_count_;
  if (index >= options_.answer.size()) return {};
  logits_.assign(vocabulary_count_, kUnlikely);
  logits_[proposal(index)] = 0.0f;
  return logits_;
}

}  // namespace edgedraft
