#include "client/engine/memory_fit.h"

#include <algorithm>
#include <cstdio>

namespace edgedraft {
namespace {

constexpr std::uint32_t kPositionsStep = 256;

Error too_much(const MemoryWishes& wishes, std::uint32_t positions, const MemoryNeed& need) {
  return {
      Errc::unsupported,
      "--memory " + mebibytes(wishes.limit) + " is too little for this drafter, which needs " +
          mebibytes(need.total(1)) + ": weights " + mebibytes(need.weights) + ", caches of " +
          std::to_string(positions) + " tokens " + mebibytes(need.cache) + ", working memory " +
          mebibytes(need.scratch) +
          ". Allow more, give a bundle of a smaller type (edgedraft convert --type q4_0) or of a "
          "smaller drafter, or --plain, which has none"};
}

}  // namespace

std::string mebibytes(std::uint64_t bytes) {
  char text[32];
  const auto size = static_cast<double>(bytes);
  if (bytes < 1u << 10) {
    std::snprintf(text, sizeof text, "%.0f B", size);
  } else if (bytes < 1u << 20) {
    std::snprintf(text, sizeof text, "%.1f KiB", size / (1u << 10));
  } else {
    std::snprintf(text, sizeof text, "%.1f MiB", size / (1u << 20));
  }
  return text;
}

Result<MemoryFit> fit_memory(const MemoryWishes& wishes,
                             const std::function<MemoryNeed(std::uint32_t positions)>& need_of) {
  const auto fits = [&](const MemoryNeed& need) { return need.total(1) <= wishes.limit; };
  const MemoryNeed whole = need_of(wishes.positions);
  if (fits(whole)) {
    const std::uint64_t room = wishes.limit - whole.total(0);
    const std::uint64_t most = whole.cache > 0 ? room / whole.cache : wishes.conversations;
    return MemoryFit{.positions = wishes.positions,
                     .conversations = static_cast<std::uint32_t>(
                         std::min<std::uint64_t>(most, wishes.conversations)),
                     .need = whole};
  }
  // In steps: from a number that fits to one that does not.
  std::uint32_t least = std::min(kFittedPositionsMin, wishes.positions);
  MemoryFit fit{.positions = least, .conversations = 1, .need = need_of(least)};
  if (!fits(fit.need)) return too_much(wishes, least, fit.need);
  std::uint32_t end = wishes.positions;
  while (end - fit.positions > kPositionsStep) {
    const std::uint32_t middle =
        fit.positions + (end - fit.positions) / 2 / kPositionsStep * kPositionsStep;
    if (middle == fit.positions) break;
    const MemoryNeed need = need_of(middle);
    if (fits(need)) {
      fit.positions = middle;
      fit.need = need;
    } else {
      end = middle;
    }
  }
  return fit;
}

}  // namespace edgedraft
