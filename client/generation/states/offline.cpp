#include <algorithm>
#include <utility>

#include "client/generation/states/states.h"

namespace edgedraft::client {

Result<Phase> OfflineState::take(const Result<ClientEvent>& told) {
  DeviceWriting& device = answer_.device;
  const auto heard = answer_.agreement.hear(told);
  // If the drafter cannot write, the answer has nothing to show.
  if (!heard && (told || !device.writes_here())) return heard.error();
  if (answer_.agreement.may_resync()) return answer_.agreement.resync();
  if (!told && device.writes_here()) {
    if (auto written = write(); !written) return written.error();
  } else if (!told && device.is_overdue()) {
    return device.unanswered(server_.link_error.value_or(ServerView::no_answer_in_time()));
  }
  device.keep_if_due();
  return Phase::offline;
}

Result<void> OfflineState::write() {
  const Instant before = parts_.now();
  const std::optional<std::uint32_t> token = answer_.device.choose();
  if (!token) {
    const Result<bool> ends = answer_.device.take_nothing();
    if (!ends) return ends.error();
    if (*ends) answer_.text.end_as(GenerationEnd::context);
    return boost::system::in_place_value;
  }
  CycleRecord record{.kind = CycleRecord::Kind::offline};
  record.drafting = parts_.now() - before;
  stats_.drafting += record.drafting;
  ++stats_.offline_tokens;
  answer_.text.write(*token, terms_.is_private ? Provenance::private_ : Provenance::offline);
  record.tokens = 1;
  answer_.notes.add(std::move(record));
  answer_.text.end_where_written({answer_.device.take_room(), answer_.agreement.server_room()});
  return boost::system::in_place_value;
}

Result<State::Step> OfflineState::work() {
  DeviceWriting& device = answer_.device;
  if (answer_.text.end()) {
    device.keep_if_due();
    const bool awaits =
        !device.device_writes() && !server_.link_closed && answer_.requests.has_text_to_check();
    if (awaits) device.await_check();
    return Step{awaits && !device.is_overdue() ? Phase::awaiting_check : Phase::over};
  }
  // The link may have an event before the next token.
  if (device.writes_here()) return Step{Phase::offline, parts_.now()};
  return Step{Phase::offline, std::min(answer_.requests.next_look(), device.check_deadline())};
}

Result<Phase> AwaitingCheckState::take(const Result<ClientEvent>& told) {
  if (!answer_.agreement.hear(told)) return Phase::over;
  if (answer_.agreement.may_resync()) return answer_.agreement.resync();
  answer_.device.keep_if_due();
  const bool waits = answer_.requests.has_text_to_check() && !answer_.device.is_overdue();
  return waits ? Phase::awaiting_check : Phase::over;
}

Result<State::Step> AwaitingCheckState::work() {
  Instant end = std::min(answer_.device.check_deadline(), answer_.device.keep_time());
  // A server out of capacity does not announce when it has some.
  if (answer_.requests.may_send()) end = std::min(end, server_.ask_again);
  return Step{Phase::awaiting_check, end};
}

}  // namespace edgedraft::client
