#include "client/generation/generation.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft::client {
Generation::Generation(const Parts& parts, const GenerationOptions& options)
    : parts_(parts),
      options_(options),
      terms_{.tokens_max = options.tokens_max, .sampling = options.sampling},
      conversation_(parts.drafter),
      memory_(parts.drafter) {
  EDGEDRAFT_CHECK(parts.drafter != nullptr || !options.tree);
}

void Generation::set(const GenerationTerms& terms) {
  EDGEDRAFT_CHECK(over());
  terms_ = terms;
  EDGEDRAFT_CHECK(!terms_.is_private || terms_.route == WritingSide::device);
}

void Generation::begin(std::span<const std::uint32_t> prompt) {
  EDGEDRAFT_CHECK(!prompt.empty());
  cancel();
  failure_.reset();
  if (auto drained = answer_.requests.drain(); !drained) return fail(drained.error());
  if (request_.in_flight) (void)parts_.link.send(CancelRequest{});
  request_.in_flight = request_.running = false;
  const auto known = conversation_.tokens();
  auto common = static_cast<std::uint32_t>(
      std::mismatch(known.begin(), known.end(), prompt.begin(), prompt.end()).first -
      known.begin());
  const auto size = static_cast<std::uint32_t>(prompt.size());
  const std::uint32_t open = terms_.is_private ? std::min(terms_.open_count, size) : size;
  const bool opens = opening_.is_wanted(open);
  // Tokens that were private are not shared with a prompt that may be sent.
  const bool all_may_go = !terms_.is_private || opens;
  // An answer that sends nothing must not connect either: a handshake that its end interrupts would
  // reveal how long the answer took.
  if (all_may_go) parts_.link.start_connecting();
  if (all_may_go) common = std::min({common, open, conversation_.ledger().untainted_count()});
  answer_.requests.keep(common);
  const std::uint32_t given = std::max(common, open);
  conversation_.append(prompt.subspan(common, given - common), Provenance::given);
  opening_.begin(prompt.subspan(given));
  if (!opens) opening_.append_rest();

  const Instant started = answer_.notes.begin();
  stats_ = {};
  stats_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  stats_.reused_tokens = common;
  conversation_.begin_answer(terms_.is_private ? std::vector<std::uint32_t>() : terms_.prediction);
  answer_.text.begin();
  answer_.drafting.begin_answer();
  answer_.device.begin();
  answer_.agreement.begin();
  server_.link_closed = false;
  request_.asks = true;
  request_.deadline = started + options_.deadline;
  // Do not wait for a link that is known to be down.
  if (server_.link_error && !answer_.device.bears_outages()) return fail(*server_.link_error);
  phase_ = opens ? Phase::opening : answer_.agreement.begin_writing();
  work();
}

bool Generation::begin_check() {
  EDGEDRAFT_CHECK(over());
  // The user cancelled the answer and does not want the rest of it.
  if (answer_.text.end() == GenerationEnd::cancelled) return false;
  if (!answer_.requests.has_text_to_check()) return false;
  if (auto drained = answer_.requests.drain(); !drained) {
    fail(drained.error());
    return true;
  }
  if (!answer_.agreement.may_resync()) return false;
  answer_.notes.resume(stats_.elapsed);
  failure_.reset();
  answer_.device.retry();
  phase_ = answer_.agreement.resync();
  work();
  return true;
}

State& Generation::state() {
  State* const states[] = {&opening_, &online_, &offline_, &awaiting_check_};
  return *states[static_cast<std::size_t>(phase_)];
}

void Generation::go_on(Result<ClientEvent> told) {
  EDGEDRAFT_CHECK(!over());
  answer_.drafting.begin_turn();
  const Result<Phase> next = state().take(told);
  if (!next) return fail(next.error());
  phase_ = *next;
  work();
}

void Generation::work() {
  while (!over()) {
    const Result<State::Step> step = state().work();
    if (!step) return fail(step.error());
    wait_end_ = step->wait_end;
    if (std::exchange(phase_, step->next) == step->next) return;
  }
  finish();
}

void Generation::cancel() {
  if (over()) return;
  if (phase_ != Phase::awaiting_check) {
    answer_.requests.drop();
    answer_.text.end_as(GenerationEnd::cancelled);
  }
  finish();
}

void Generation::finish() {
  answer_.requests.end_run();
  phase_ = Phase::over;
  stats_.tokens = conversation_.answer_count();
  stats_.context_count = server_.context_count;
  if (parts_.drafter) stats_.prediction = parts_.drafter->prediction_counts();
  stats_.elapsed = answer_.notes.elapsed();
}

void Generation::fail(const Error& error) {
  phase_ = Phase::over;
  failure_ = error;
}

Result<GenerationEnd> Generation::end() const {
  EDGEDRAFT_CHECK(over() && (failure_ || answer_.text.end()));
  if (failure_) return *failure_;
  return *answer_.text.end();
}

}  // namespace edgedraft::client
