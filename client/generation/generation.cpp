#include "client/generation/generation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft::client {
namespace {

// Interval for checking whether a backed-up link accepts hints again.
constexpr Duration kBackedUpLook = std::chrono::milliseconds(5);

}  // namespace

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
  if (auto drained = requests_.drain(); !drained) return fail(drained.error());
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
  if (all_may_go) common = std::min({common, open, conversation_.ledger().untainted_count()});
  requests_.keep(common);
  const std::uint32_t given = std::max(common, open);
  conversation_.append(prompt.subspan(common, given - common), Provenance::given);
  opening_.begin(prompt.subspan(given));
  if (!opens) opening_.end();

  const Instant started = notes_.begin();
  stats_ = {};
  stats_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  stats_.reused_tokens = common;
  conversation_.begin_answer(terms_.is_private ? std::vector<std::uint32_t>() : terms_.prediction);
  text_.begin();
  drafting_.begin_answer();
  device_.begin();
  server_.link_closed = false;
  request_.asks = true;
  request_.deadline = started + options_.deadline;
  state_ = ClientState::online;
  // Do not wait for a link that is known to be down.
  if (server_.link_error && !device_.bears_outages()) return fail(*server_.link_error);
  if (opens) {
    phase_ = Phase::opening;
  } else {
    begin_writing();
  }
  work();
}

void Generation::end_opening() {
  opening_.end();
  conversation_.begin_answer();
  begin_writing();
}

void Generation::begin_writing() {
  phase_ = Phase::writing;
  if (device_.device_writes()) {
    go_offline("the device answers first");
  } else if (server_.link_error) {
    go_offline(server_.link_error->message);
  }
}

bool Generation::begin_check() {
  EDGEDRAFT_CHECK(over());
  // The user cancelled the answer and does not want the rest of it.
  if (text_.end() == GenerationEnd::cancelled || !requests_.has_text_to_check()) return false;
  if (auto drained = requests_.drain(); !drained) {
    fail(drained.error());
    return true;
  }
  if (!may_ask_again()) return false;
  notes_.resume(stats_.elapsed);
  failure_.reset();
  device_.retry();
  phase_ = Phase::writing;
  begin_resync();
  work();
  return true;
}

void Generation::go_on(Result<ClientEvent> told) {
  EDGEDRAFT_CHECK(!over());
  if (phase_ != Phase::awaiting_check && state_ != ClientState::offline) {
    stats_.waiting += parts_.now() - wait_begin_;
  }
  drafting_.begin_turn();
  if (auto taken = take_all(told); !taken) return fail(taken.error());
  if (state_ == ClientState::online) drafting_.look(text_.end().has_value());
  work();
}

// During a step of drafting, a run's verdicts queue in the link. All are taken before the next
// step. Taking one per step would fall behind a server faster than the drafter, and draft below a
// root that was decided long before.
Result<void> Generation::take_all(const Result<ClientEvent>& told) {
  if (auto taken = take(told); !taken) return taken;
  while (request_.running && request_.in_flight && !text_.end() && state_ != ClientState::offline) {
    const auto more = parts_.link.wait_event(Instant::min());
    if (!more && more.error().code == Errc::timed_out) break;
    if (auto taken = take(more); !taken) return taken;
  }
  return boost::system::in_place_value;
}

Result<void> Generation::take(const Result<ClientEvent>& told) {
  if (phase_ == Phase::opening) {
    const Result<bool> goes_on = opening_.take(told);
    if (!goes_on) go_offline(goes_on.error().message);
    if (!goes_on || !*goes_on) end_opening();
    return boost::system::in_place_value;
  }
  if (phase_ == Phase::awaiting_check) {
    take_awaiting_check(told);
    return boost::system::in_place_value;
  }
  return state_ == ClientState::offline ? take_offline(told) : take_online(told);
}

void Generation::work() {
  if (phase_ == Phase::opening) {
    if (const std::optional<Instant> end = opening_.work()) {
      wait_begin_ = parts_.now();
      wait_end_ = *end;
      return;
    }
    end_opening();
  }
  while (phase_ == Phase::writing) {
    if (text_.end()) {
      if (state_ == ClientState::offline) device_.keep_if_due();
      const bool awaits = state_ == ClientState::offline && !device_.device_writes() &&
                          !server_.link_closed && requests_.has_text_to_check();
      if (awaits) device_.await_check();
      if (!awaits || device_.is_overdue()) return finish();
      phase_ = Phase::awaiting_check;
    } else if (state_ == ClientState::offline) {
      // The link may have an event before the next token.
      wait_end_ = device_.writes_here() ? parts_.now() : requests_.next_look();
      if (!device_.writes_here()) wait_end_ = std::min(wait_end_, device_.check_deadline());
      return;
    } else if (requests_.may_send() && !drafting_.awaits_rows()) {
      if (auto sent = send_wanted(); !sent) {
        if (auto taken = on_link_error(sent.error()); !taken) return fail(taken.error());
      }
    } else {
      if (state_ == ClientState::online) device_.agree();
      if (drafting_.drafts_ahead()) {
        drafting_.step();
      } else if (drafting_.holds_news()) {
        drafting_.send_news();
      }
      wait_begin_ = parts_.now();
      // The link may have an event between two steps.
      wait_end_ = drafting_.drafts_ahead()  ? wait_begin_
                  : drafting_.awaits_rows() ? request_.rows_deadline
                                            : request_.deadline;
      if (drafting_.holds_news()) wait_end_ = std::min(wait_end_, wait_begin_ + kBackedUpLook);
      return;
    }
  }
  if (phase_ != Phase::awaiting_check) return;
  wait_end_ = std::min(device_.check_deadline(), device_.keep_time());
  // A server out of capacity does not announce when it has some.
  if (requests_.may_send()) wait_end_ = std::min(wait_end_, server_.ask_again);
}

void Generation::cancel() {
  if (over()) return;
  if (phase_ != Phase::awaiting_check) {
    requests_.drop();
    text_.end_as(GenerationEnd::cancelled);
  }
  finish();
}

void Generation::finish() {
  requests_.end_run();
  phase_ = Phase::over;
  stats_.tokens = answer_count();
  stats_.context_count = server_.context_count;
  stats_.elapsed = notes_.elapsed();
}

void Generation::fail(const Error& error) {
  phase_ = Phase::over;
  failure_ = error;
}

Result<GenerationEnd> Generation::end() const {
  EDGEDRAFT_CHECK(over() && (failure_ || text_.end()));
  if (failure_) return *failure_;
  return *text_.end();
}

void Generation::enter(ClientState state, const std::string& why) {
  state_ = state;
  parts_.observer.on_state(state, why);
  notes_.add({.kind = CycleRecord::Kind::state, .state = state, .why = why});
}

}  // namespace edgedraft::client
