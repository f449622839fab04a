#pragma once

#include <cstdint>
#include <vector>

#include "server/sessions/session_store.h"
#include "server/sessions/target_session.h"

namespace edgedraft::testing {
using namespace server;

// The answer of a single client without drafts: it ends at an end token, at the end of the context,
// or after `count` tokens.
inline std::vector<std::uint32_t> plain_answer(const SessionParts& of,
                                               const std::vector<std::uint32_t>& prompt,
                                               std::size_t count,
                                               const SamplingParams& sampling = {}) {
  TargetSession target(of.decoder, of.decoder.make_cache(of.kv_type), of.context_count, of.is_end);
  const auto first = target.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling});
  std::vector<std::uint32_t> answer{first->next};
  Finish finish = first->finish;
  while (finish == Finish::none && answer.size() < count) {
    const auto path = target.verify(DraftTree());
    answer.push_back(path->next);
    finish = path->finish;
  }
  return answer;
}

}  // namespace edgedraft::testing
