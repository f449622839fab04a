#include "client/engine/memory_fit.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace edgedraft::client {
namespace {

constexpr std::uint32_t kPositionsStep = 256;

Error too_much(std::uint64_t limit, std::uint32_t positions, const MemoryNeed& need) {
  return {
      Errc::unsupported,
      "--memory " + mebibytes(limit) + " is too little for this drafter, which needs " +
          mebibytes(need.total(1)) + ": weights " + mebibytes(need.weights) + ", KV cache of " +
          std::to_string(positions) + " tokens " + mebibytes(need.cache) + ", working memory " +
          mebibytes(need.scratch) +
          "; raise the limit, use a bundle of a smaller type (edgedraft convert --type q4_0) or of "
          "a smaller drafter, or use --plain, which needs none"};
}

}  // namespace

std::string mebibytes(std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes < 1u << 10) return fmt::format("{} B", bytes);
  if (bytes < 1u << 20) return fmt::format("{:.1f} KiB", size / (1u << 10));
  return fmt::format("{:.1f} MiB", size / (1u << 20));
}

Result<MemoryFit> fit_memory(std::uint64_t limit, std::uint32_t positions,
                             std::uint32_t conversations,
                             const std::function<MemoryNeed(std::uint32_t positions)>& need_of) {
  const auto fits = [&](const MemoryNeed& need) { return need.total(1) <= limit; };
  const MemoryNeed whole = need_of(positions);
  if (fits(whole)) {
    const std::uint64_t room = limit - whole.total(0);
    const std::uint64_t most = whole.cache > 0 ? room / whole.cache : conversations;
    return MemoryFit{
        .positions = positions,
        .conversations = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, conversations)),
        .need = whole};
  }
  // Bisects between a size that fits and one that does not.
  std::uint32_t least = std::min(kFittedPositionsMin, positions);
  MemoryFit fit{.positions = least, .conversations = 1, .need = need_of(least)};
  if (!fits(fit.need)) return too_much(limit, least, fit.need);
  std::uint32_t end = positions;
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

}  // namespace edgedraft::client
