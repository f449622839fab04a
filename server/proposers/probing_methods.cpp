#include "server/proposers/probing_methods.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/proposers/lookahead.h"
#include "server/proposers/spectra_core.h"

namespace edgedraft::server {
namespace {

constexpr std::array kMethods{
    ProbingMethodKind{.name = "lookahead",
                      .make = [](const std::function<bool(std::uint32_t)>& is_end)
                          -> std::unique_ptr<ProbingMethod> {
                        return std::make_unique<Lookahead>(LookaheadOptions{}, is_end);
                      }},
    ProbingMethodKind{
        .name = "core",
        .make = [](const std::function<bool(std::uint32_t)>&) -> std::unique_ptr<ProbingMethod> {
          return std::make_unique<SpectraCore>(SpectraCoreOptions{});
        }},
};

}  // namespace

std::span<const ProbingMethodKind> probing_methods() {
  return kMethods;
}

const ProbingMethodKind* find_probing_method(std::string_view name) {
  const auto found = std::ranges::find(kMethods, name, &ProbingMethodKind::name);
  return found == kMethods.end() ? nullptr : found;
}

std::string probing_method_names() {
  std::string names;
  for (const ProbingMethodKind& kind : kMethods) {
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  }
  return names;
}

ProposerSource probing_source(const ProbingMethodKind& kind,
                              std::function<bool(std::uint32_t)> is_end,
                              std::function<std::unique_ptr<SessionProposer>()> filler) {
  const std::uint32_t probe_rows = kind.make(is_end)->rows_max();
  return {.make =
              [make = kind.make, is_end = std::move(is_end),
               filler = std::move(filler)](std::shared_ptr<std::uint32_t>) {
                return std::make_unique<ProbingProposer>(make(is_end), filler ? filler() : nullptr);
              },
          .session_bytes = 0,  // tables are in host memory and bounded
          .probe_rows = probe_rows,
          .joins_hints = true};
}

}  // namespace edgedraft::server
