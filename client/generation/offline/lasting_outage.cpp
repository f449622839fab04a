#include "client/generation/offline/lasting_outage.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace edgedraft::client {
namespace {

constexpr std::size_t kRepeated = 4;
constexpr std::size_t kBefore = kRepeated - 1;

// Tokens that followed `last` in the text, in order.
std::vector<std::uint32_t> said_behind(std::span<const std::uint32_t> last,
                                       std::span<const std::uint32_t> text) {
  std::vector<std::uint32_t> said;
  for (std::size_t i = kBefore; i < text.size(); ++i) {
    if (std::ranges::equal(text.subspan(i - kBefore, kBefore), last)) said.push_back(text[i]);
  }
  std::ranges::sort(said);
  return said;
}

}  // namespace

void avoid_circles(std::span<const std::uint32_t> text, std::size_t answer_first,
                   std::span<float> logits) {
  const auto answer = text.subspan(answer_first);
  if (answer.size() < kBefore) return;
  const auto last = answer.last(kBefore);
  std::vector<std::uint32_t> said = said_behind(last, answer);
  if (said.empty()) return;
  const std::vector<std::uint32_t> before = said_behind(last, text.first(answer_first));
  std::erase_if(said,
                [&](std::uint32_t token) { return std::ranges::binary_search(before, token); });
  const auto is_left = [&](std::size_t token) {
    return std::isfinite(logits[token]) && !std::ranges::binary_search(said, token);
  };
  std::size_t left = 0;
  while (left < logits.size() && !is_left(left)) ++left;
  if (left == logits.size()) return;
  for (const std::uint32_t token : said) logits[token] = -std::numeric_limits<float>::infinity();
}

}  // namespace edgedraft::client
