#include "client/generation/token_writer.h"

#include <algorithm>
#include <span>
#include <utility>

namespace edgedraft::client {

void TokenWriter::write(std::uint32_t token, Provenance provenance) {
  // The target may return more tokens than requested.
  if (conversation_.answer_count() == terms_.tokens_max) return;
  conversation_.append(std::span(&token, 1), provenance);
  // A check may withdraw all of an answer whose first token was already shown.
  if (!std::exchange(has_begun_, true)) stats_.first_token_elapsed = notes_.elapsed();
  parts_.observer.on_token(token, conversation_.ledger().provenance(conversation_.count() - 1));
}

void TokenWriter::end_where_due(wire::Ending ending) {
  if (ending == wire::Ending::end_token) {
    end_ = GenerationEnd::end_token;
  } else if (ending == wire::Ending::stop) {
    end_ = GenerationEnd::stop;
  } else if (conversation_.answer_count() >= terms_.tokens_max) {
    end_ = GenerationEnd::tokens_max;
  } else if (ending == wire::Ending::context) {
    end_ = GenerationEnd::context;
  }
}

void TokenWriter::end_where_written(std::initializer_list<std::uint32_t> context_counts) {
  const bool full = std::ranges::any_of(context_counts, [&](std::uint32_t context) {
    return context > 0 && conversation_.count() >= context;
  });
  end_where_due(parts_.is_end(conversation_.tokens().back()) ? wire::Ending::end_token
                : terms_.filter && terms_.filter->stops(conversation_.answer()) ? wire::Ending::stop
                : full ? wire::Ending::context
                       : wire::Ending::none);
}

void TokenWriter::tell_logprobs(const wire::Verdict& verdict) {
  if (terms_.logprobs == 0 || verdict.logprobs.empty()) return;
  const auto count = static_cast<std::uint32_t>(verdict.logprobs.size() / terms_.logprobs);
  const std::uint32_t first = verdict.length - count;
  // Ignores log probabilities of tokens before the answer, whatever the server sends.
  const std::uint32_t before =
      first < conversation_.answer_first() ? conversation_.answer_first() - first : 0;
  if (before >= count) return;
  parts_.observer.on_logprobs(
      first + before - conversation_.answer_first(),
      std::span(verdict.logprobs).subspan(std::size_t{before} * terms_.logprobs), terms_.logprobs);
}

}  // namespace edgedraft::client
