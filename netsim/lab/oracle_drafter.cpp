#include "netsim/lab/oracle_drafter.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/base/check.h"
#include "shared/base/random.h"
#include "shared/base/text_file.h"
#include "shared/forecast/rank_probabilities.h"
#include "shared/protocol/limits.h"

namespace edgedraft::lab {
namespace {

constexpr std::uint64_t kAnswerBytesMax = 64u << 20;
// Practically impossible, but finite.
constexpr float kUnlikely = -1e9f;

}  // namespace

Result<std::vector<std::uint32_t>> read_answer_tokens(const std::filesystem::path& file) {
  const auto text = read_text(file, kAnswerBytesMax);
  if (!text) return text.error();
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const Error wrong{Errc::usage, file.string() +
                                     ": not an answer in JSON; give the output of `edgedraft run "
                                     "--plain --json` for the same prompt"};
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
      ranks_(rank_probabilities(options_.acceptance)),
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

std::size_t OracleDrafter::right_rank(std::size_t index) const {
  double left = uniform_at(options_.seed, index);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    left -= ranks_[rank];
    if (left < 0.0) return rank;
  }
  return kTreeBreadthMax;
}

std::uint32_t OracleDrafter::proposal(std::size_t index, std::size_t rank) const {
  // Another model's answer may hold any id.
  const std::uint32_t right = options_.answer[index] % vocabulary_count_;
  if (rank == right_rank(index)) return right;
  return (right + 1 + static_cast<std::uint32_t>(rank)) % vocabulary_count_;
}

float OracleDrafter::log_probability(std::size_t rank) const {
  const double probability = rank < ranks_.size() ? ranks_[rank] : 0.0;
  return probability > 0.0 ? static_cast<float>(std::log(probability)) : kUnlikely;
}

bool OracleDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  EDGEDRAFT_CHECK(count_ >= prompt_count_ && prompt_count_ > 0);
  const std::size_t first = count_ - prompt_count_;
  const std::size_t left =
      first < options_.answer.size() ? options_.answer.size() - first : std::size_t{0};
  growth.limit_depth(static_cast<std::uint32_t>(std::min<std::size_t>(left, kTreeDepthMax)));
  std::uint32_t rows_left = budget.rows;
  while (rows_left > 0) {
    const GrowthLevel level = growth.next(rows_left);
    if (level.empty()) return true;
    std::vector<std::uint32_t> tokens;
    std::vector<float> log_probs;
    if (level.children) {
      for (const GrowthNode& node : level.nodes) {
        for (std::size_t rank = 0; rank < growth.shape().breadth; ++rank) {
          // Proposals below a wrong path are wrong, at the same cost.
          tokens.push_back(proposal(first + node.depth, rank));
          log_probs.push_back(log_probability(rank));
        }
      }
      rows_left -= static_cast<std::uint32_t>(level.nodes.size());
    }
    growth.answer(level, tokens, log_probs);
  }
  return growth.done();
}

std::span<const float> OracleDrafter::next_logits() {
  const std::size_t index = count_ - prompt_count_;
  if (index >= options_.answer.size()) return {};
  logits_.assign(vocabulary_count_, kUnlikely);
  logits_[proposal(index, 0)] = 0.0f;
  return logits_;
}

}  // namespace edgedraft::lab
