#include "client/generation/states/agreement.h"

namespace edgedraft::client {
namespace {

bool trying_again_may_help(Errc code) {
  return code == Errc::link_down || code == Errc::timed_out || code == Errc::refused;
}

}  // namespace

void Agreement::enter(ClientState state, const std::string& why) {
  state_ = state;
  parts_.observer.on_state(state, why);
  notes_.add({.kind = CycleRecord::Kind::state, .state = state, .why = why});
}

Phase Agreement::begin_writing() {
  if (device_.device_writes()) return go_offline("the device answers first");
  return server_.link_error ? go_offline(server_.link_error->message) : Phase::online;
}

Phase Agreement::go_offline(const std::string& why) {
  if (state_ == ClientState::offline) return Phase::offline;
  device_.begin_outage();
  enter(ClientState::offline, why);
  // The text may have been complete, and only its check was lost.
  if (conversation_.answer_count() > 0) text_.end_where_written({server_room()});
  return Phase::offline;
}

Phase Agreement::resync() {
  ++stats_.resyncs;
  text_.go_on();
  request_.asks = true;
  enter(ClientState::resyncing, "the server is back");
  return Phase::online;
}

Result<Phase> Agreement::lost(const Error& error) {
  if (error.code == Errc::link_down) {
    requests_.lost(error);
  } else if (error.code != Errc::timed_out) {  // on timeout the answer may still arrive
    request_.in_flight = request_.running = false;
    server_.signed_in = server_.signed_in && parts_.link.state() == LinkState::online;
  }
  const bool hopeless = !trying_again_may_help(error.code);
  server_.link_closed = server_.link_closed || hopeless;
  const bool nothing_to_show = conversation_.answer_count() == 0 || !terms_.writes_offline;
  if (!device_.bears_outages() || (hopeless && nothing_to_show)) return error;
  return go_offline(error.message);
}

Result<Phase> Agreement::refused(const Error& error) {
  request_.in_flight = request_.running = false;
  const bool given_everything = server_.count == 0 && !server_.session;
  if (error.code == Errc::session_unknown && !given_everything) {
    server_.forgot();
    request_.asks = true;
    return Phase::online;
  }
  // A server that received everything and still reports no session is out of capacity, regardless
  // of its reason. Resending everything at once could loop forever.
  const bool no_room = error.code == Errc::refused || error.code == Errc::session_unknown;
  const Error reason = no_room ? Error{Errc::refused, error.message} : error;
  if (!no_room || !device_.bears_outages()) return lost(reason);
  // The connection stays up, so no event announces free capacity.
  server_.ask_again = parts_.now() + options_.deadline;
  return go_offline(reason.message);
}

Result<void> Agreement::hear(const Result<ClientEvent>& told) {
  if (!told) {
    const Error& error = told.error();
    if (error.code == Errc::link_down) requests_.lost(error);
    if (!trying_again_may_help(error.code) && !server_.link_closed) {
      // The link will not come back. Reported once, although the link repeats it at every call.
      server_.link_closed = true;
      enter(ClientState::offline, error.message);
    }
    if (server_.link_closed) return error;
    return boost::system::in_place_value;
  }
  if (auto taken = requests_.take(*told); !taken) return taken;
  if (const auto* refusal = std::get_if<RequestRefused>(&*told)) {
    if (auto borne = refused(refusal->error); !borne) return borne.error();
  }
  const auto* const verdict = std::get_if<VerdictReceived>(&*told);
  if (verdict != nullptr && requests_.awaits(verdict->to)) {
    request_.in_flight = verdict->more;
    requests_.drop();
    requests_.take_late(*verdict);
  }
  return boost::system::in_place_value;
}

}  // namespace edgedraft::client
