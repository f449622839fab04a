#include "client/generation/generation.h"

#include <algorithm>
#include <array>
#include <vector>

#include "client/generation/lasting_outage.h"
#include "shared/speculative/sampling.h"

// Without the server: the drafter writes on alone, until the two can talk again.
namespace edgedraft {
namespace {

constexpr const char* kNeedsTarget =
    "this drafter cannot answer alone (it needs the target's activations): give "
    "--offline-bundle FILE";

constexpr const char* kCannotWrite =
    "the drafter cannot write here without the server: its kind never does, or the conversation is "
    "longer than it has room for";

bool trying_again_may_help(Errc code) {
  return code == Errc::link_down || code == Errc::timed_out || code == Errc::refused;
}

}  // namespace

Result<void> Generation::take_offline(const Result<ClientEvent>& told) {
  if (told) {
    if (auto taken = on_event(*told); !taken) return taken;
  } else {
    on_error_offline(told.error());
    // Without the text that the drafter could write there is nothing to show for the answer.
    if (server_.link_closed && !writes_here()) return told.error();
  }
  if (may_ask_again()) begin_resync();
  if (!told && state_ == ClientState::offline) {
    if (writes_here()) {
      if (auto written = write_offline(); !written) return written;
    } else if (check_deadline_ && parts_.now() >= *check_deadline_) {
      return unanswered();
    }
  }
  keep_if_due();
  return boost::system::in_place_value;
}

Result<void> Generation::write_offline() {
  const Instant before = parts_.now();
  std::span<const float> logits;
  if (parts_.writer != nullptr) {
    logits = parts_.writer->next_logits(conversation_.tokens());
  } else if (parts_.drafter != nullptr && !is_blind()) {
    logits = parts_.drafter->next_logits();
  }
  if (logits.empty()) return on_nothing_to_write();
  const bool constrained = terms_.law && terms_.law->changes_logits();
  const bool lasts = outage_tokens_++ >= kLastingOutageTokens;
  std::vector<float> lawful;
  if (constrained || lasts) lawful.assign(logits.begin(), logits.end());
  if (constrained) terms_.law->apply(conversation_.answer(), lawful);
  // A grammar's texts may have to say things again, and a model that is asked by itself says what
  // it says.
  const bool repeats =
      (constrained && terms_.law->grammar()) || (device_writes_ && parts_.writer != nullptr);
  if (lasts && !repeats)
    avoid_circles(conversation_.tokens(), conversation_.answer_first(), lawful);
  const std::uint32_t token =
      Sampler(terms_.sampling).choose(lawful.empty() ? logits : lawful, conversation_.count());
  if (device_writes_ && terms_.route == AnswerRoute::automatic) {
    confidence_.observe(lawful.empty() ? logits : lawful, token);
    device_writes_ = !confidence_.unsure();
  }
  CycleRecord record{.kind = CycleRecord::Kind::offline};
  record.drafting = parts_.now() - before;
  stats_.drafting += record.drafting;
  ++stats_.offline_tokens;
  text_.write(token, terms_.is_private ? Provenance::private_ : Provenance::offline);
  record.tokens = 1;
  notes_.add(std::move(record));
  // The server goes on behind what the drafter holds, if it holds more; the drafter alone does not.
  std::uint32_t room = parts_.writer != nullptr ? 0 : options_.context_count;
  if (device_writes_ && terms_.route == AnswerRoute::automatic && room > 0 &&
      conversation_.count() >= room) {
    device_writes_ = false;
    room = 0;
  }
  text_.end_where_written({room, server_room()});
  return boost::system::in_place_value;
}

// There is no drafter, its context is full, it has no activations yet, or it proposes tokens
// without a distribution of the next one.
Result<void> Generation::on_nothing_to_write() {
  if (device_writes_ && terms_.route == AnswerRoute::automatic) {
    device_writes_ = false;  // hands over
  } else if (outage_tokens_ > 0 && !is_blind()) {
    text_.end_as(AnswerEnd::context);
  } else if (device_writes_) {
    if (is_blind()) return Error{Errc::unsupported, kNeedsTarget};
    if (options_.context_count > 0 && conversation_.count() >= options_.context_count) {
      return Error{Errc::context_full, "the conversation has " +
                                           std::to_string(conversation_.count()) +
                                           " tokens, and the device has room for " +
                                           std::to_string(options_.context_count)};
    }
    return Error{Errc::unsupported,
                 std::string(kCannotWrite) +
                     "; let the server answer, or give the device another drafter (--drafter, "
                     "--offline-bundle) or more room (--ctx)"};
  } else {
    nothing_to_write_ = true;
    if (!check_deadline_) check_deadline_ = parts_.now() + options_.resync_wait;
  }
  return boost::system::in_place_value;
}

Error Generation::unanswered() const {
  Error error = server_.link_error.value_or(ServerView::no_answer_in_time());
  if (nothing_to_write_ && has_writer()) {
    error.message += std::string("; ") + (is_blind() ? kNeedsTarget : kCannotWrite);
  }
  return error;
}

bool Generation::bears_outages() const {
  return has_writer() || !terms_.writes_offline || options_.resync_wait > Duration::zero();
}

void Generation::keep_if_due() {
  const bool doubtful = conversation_.settled_count() < conversation_.count();
  if (!doubtful || state_ != ClientState::offline || terms_.keep_after == Duration::max()) return;
  if (parts_.now() < *outage_began_ + terms_.keep_after) return;
  conversation_.settle();
  parts_.observer.on_kept(answer_count());
}

// An answer that ended offline waits for the server to check it, in all as long as it may: a server
// that refuses the check each time is not waited for anew.
void Generation::take_awaiting_check(const Result<ClientEvent>& told) {
  if (told) {
    if (!on_event(*told)) return finish();
  } else {
    on_error_offline(told.error());
    if (server_.link_closed) return finish();
  }
  if (may_ask_again()) {
    phase_ = Phase::writing;
    begin_resync();
    return;
  }
  keep_if_due();
  if (!requests_.has_text_to_check() || parts_.now() >= *check_deadline_) finish();
}

void Generation::on_error_offline(const Error& error) {
  if (error.code == Errc::link_down) requests_.lost(error);
  if (trying_again_may_help(error.code) || server_.link_closed) return;
  // The link will not come back. Told once: it is repeated at every call.
  server_.link_closed = true;
  enter(ClientState::offline, error.message);
}

Result<void> Generation::on_refused(const Error& error) {
  request_.in_flight = request_.running = false;
  const bool given_everything = server_.count == 0 && !server_.session;
  if (error.code == Errc::session_unknown && !given_everything) {
    server_.forgot();
    request_.asks = true;
    return boost::system::in_place_value;
  }
  // A server that was given everything and still knows nothing has no room, whatever it says: to
  // give it everything again at once could go on for ever.
  const bool no_room = error.code == Errc::refused || error.code == Errc::session_unknown;
  const Error reason = no_room ? Error{Errc::refused, error.message} : error;
  if (!no_room || !bears_outages()) return on_link_error(reason);
  // The connection stands, so nothing tells when there is room again.
  server_.ask_again = parts_.now() + options_.deadline;
  go_offline(reason.message);
  return boost::system::in_place_value;
}

Result<void> Generation::on_link_error(const Error& error) {
  if (error.code == Errc::link_down) {
    requests_.lost(error);
  } else if (error.code != Errc::timed_out) {  // then the answer may still come
    request_.in_flight = request_.running = false;
    server_.signed_in = server_.signed_in && parts_.link.state() == LinkState::online;
  }
  const bool hopeless = !trying_again_may_help(error.code);
  server_.link_closed = server_.link_closed || hopeless;
  const bool nothing_to_show = answer_count() == 0 || !terms_.writes_offline;
  if (!bears_outages() || (hopeless && nothing_to_show)) return error;
  go_offline(error.message);
  return boost::system::in_place_value;
}

void Generation::go_offline(const std::string& why) {
  if (state_ == ClientState::offline) return;
  if (!outage_began_) {
    outage_began_ = parts_.now();
    outage_tokens_ = 0;
  }
  if (!terms_.writes_offline && terms_.wait_max != Duration::max() && !check_deadline_) {
    check_deadline_ = parts_.now() + terms_.wait_max;
  }
  enter(ClientState::offline, why);
  // The text may have been whole already, and only its check was lost.
  if (answer_count() > 0) text_.end_where_written({server_room()});
}

}  // namespace edgedraft
