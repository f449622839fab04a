#include "client/generation/generation.h"

#include <algorithm>
#include <array>
#include <vector>

#include "client/generation/lasting_outage.h"
#include "shared/speculative/sampling.h"

// Without the server: the drafter writes on alone, until the two can talk again.
namespace edgedraft {
namespace {

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
    if (server_.link_closed && !device_.writes_here()) return told.error();
  }
  if (may_ask_again()) begin_resync();
  if (!told && state_ == ClientState::offline) {
    if (device_.writes_here()) {
      if (auto written = write_offline(); !written) return written;
    } else if (device_.is_overdue()) {
      return device_.unanswered(server_.link_error.value_or(ServerView::no_answer_in_time()));
    }
  }
  if (state_ == ClientState::offline) device_.keep_if_due();
  return boost::system::in_place_value;
}

Result<void> Generation::write_offline() {
  const Instant before = parts_.now();
  const std::optional<std::uint32_t> token = device_.choose();
  if (!token) {
    const Result<bool> ends = device_.take_nothing();
    if (!ends) return ends.error();
    if (*ends) text_.end_as(AnswerEnd::context);
    return boost::system::in_place_value;
  }
  CycleRecord record{.kind = CycleRecord::Kind::offline};
  record.drafting = parts_.now() - before;
  stats_.drafting += record.drafting;
  ++stats_.offline_tokens;
  text_.write(*token, terms_.is_private ? Provenance::private_ : Provenance::offline);
  record.tokens = 1;
  notes_.add(std::move(record));
  text_.end_where_written({device_.take_room(), server_room()});
  return boost::system::in_place_value;
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
  if (state_ == ClientState::offline) device_.keep_if_due();
  if (!requests_.has_text_to_check() || device_.is_overdue()) finish();
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
  if (!no_room || !device_.bears_outages()) return on_link_error(reason);
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
  if (!device_.bears_outages() || (hopeless && nothing_to_show)) return error;
  go_offline(error.message);
  return boost::system::in_place_value;
}

void Generation::go_offline(const std::string& why) {
  if (state_ == ClientState::offline) return;
  device_.begin_outage();
  enter(ClientState::offline, why);
  // The text may have been whole already, and only its check was lost.
  if (answer_count() > 0) text_.end_where_written({server_room()});
}

}  // namespace edgedraft
