#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/proposers/probing_proposer.h"
#include "server/proposers/speculation.h"

namespace edgedraft::server {

// A speculation method that needs only the target.
struct ProbingMethodKind {
  std::string_view name;
  std::unique_ptr<ProbingMethod> (*make)(const std::function<bool(std::uint32_t)>& is_end);
};

// The only list of all methods.
std::span<const ProbingMethodKind> probing_methods();
// Null if there is none of that name.
const ProbingMethodKind* find_probing_method(std::string_view name);
// "a, b".
std::string probing_method_names();

// Proposers of that method; `filler`, which may be empty, adds guesses up to the limit.
ProposerSource probing_source(const ProbingMethodKind& kind,
                              std::function<bool(std::uint32_t)> is_end,
                              std::function<std::unique_ptr<SessionProposer>()> filler = {});

}  // namespace edgedraft::server
