#include "shared/speculative/verification.h"

#include "shared/base/check.h"

namespace edgedraft {

VerifiedPath verify(const DraftTree& tree, const VerifyOptions& options) {
  EDGEDRAFT_CHECK(options.root_position + 1 < options.context_count);
  VerifiedPath result;
  std::uint32_t row = 0;
  std::uint32_t position = options.root_position + 1;
  for (;;) {
    result.next = options.choose(row, position);
    if (options.is_end(result.next)) {
      result.finish = Finish::end_token;
      return result;
    }
    if (position + 1 >= options.context_count) {
      result.finish = Finish::context;
      return result;
    }
    if (result.path.size() >= options.path_max) return result;
    row = tree.child(row, result.next);
    if (row == 0) return result;
    result.path.push_back(row);
    ++position;
  }
}

}  // namespace edgedraft
