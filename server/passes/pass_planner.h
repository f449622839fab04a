#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace edgedraft::server {

// A request's demand on the next pass.
struct RowClaim {
  std::uint32_t rows;  // rows still to run; 0: it takes no part
  bool divisible;      // true for a prompt, which may run in parts
};

struct RowShare {
  std::size_t claim;  // index of the claim
  std::uint32_t rows;
};

// Selects requests and row counts for the next pass. Drafts go first, in order of arrival; prompts
// take turns for prompt_rows per pass, or for the whole pass if there is no draft. A draft that
// does not fit waits and blocks later ones. If drafts left nothing for prompts, prompts get their
// share of the next pass before any draft.
class PassPlanner {
 public:
  struct Limits {
    std::uint32_t pass_rows_max;
    std::uint32_t prompt_rows;  // in a pass with drafts
  };
  // Requires  1 <= prompt_rows < pass_rows_max
  explicit PassPlanner(const Limits& limits) : limits_(limits) {}

  // `claims` are in order of arrival. `finds_memory` is called for drafts that fit into the pass; a
  // draft without memory takes no part and blocks no other. Returns drafts first.
  std::vector<RowShare> plan(std::span<const RowClaim> claims,
                             const std::function<bool(std::size_t claim)>& finds_memory);

 private:
  Limits limits_;
  bool prompts_first_ = false;
};

}  // namespace edgedraft::server
