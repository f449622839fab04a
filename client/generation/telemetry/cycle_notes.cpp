#include "client/generation/telemetry/cycle_notes.h"

#include <algorithm>
#include <utility>

namespace edgedraft::client {

Instant CycleNotes::begin() {
  started_ = parts_.now();
  if (parts_.on_cycle) link_ = parts_.link.stats();
  return started_;
}

Duration CycleNotes::round_trip_of(const VerdictReceived& event, Instant taken) {
  const Instant received = event.times ? event.times->received : taken;
  const Instant before = std::exchange(last_received_, received);
  const bool in_run = event.to == VerdictReceived::To::run;
  if (in_run && !options_.in_lockstep()) return received - before;
  return received - (event.times ? event.times->sent
                     : in_run    ? request_.drafted_at
                                 : request_.sent);
}

void CycleNotes::add_verdict(const VerdictReceived& event, Duration round_trip,
                             std::uint32_t count_before) {
  if (!parts_.on_cycle) return;
  CycleRecord record{.drafting = request_.drafting};
  const bool in_run = event.to == VerdictReceived::To::run;
  record.kind = in_run             ? CycleRecord::Kind::draft
                : request_.checked ? CycleRecord::Kind::resync
                                   : CycleRecord::Kind::prompt;
  record.server = {.queue_us = event.verdict.queue_us,
                   .verify_us = event.verdict.verify_us,
                   .held_us = event.verdict.held_us,
                   .draft_us = event.verdict.draft_us};
  record.streamed = in_run && !options_.in_lockstep();
  record.rows = record.streamed ? event.verdict.drafted + event.verdict.hinted + 1 : request_.rows;
  record.accepted = static_cast<std::uint32_t>(event.verdict.tokens.size());
  record.tokens =
      conversation_.answer_count() - std::min(count_before, conversation_.answer_count());
  record.round_trip = round_trip;
  if (event.times) {
    const Instant before_request =
        record.kind == CycleRecord::Kind::draft ? request_.drafted_at : request_.sent;
    if (!record.streamed) record.pack = event.times->sent - before_request;
    record.unpack = parts_.now() - event.times->received;
    record.tcp = event.times->tcp;
  }
  add(std::move(record));
}

void CycleNotes::add(CycleRecord record) {
  if (!parts_.on_cycle) return;
  record.at = elapsed();
  record.answer_tokens = conversation_.answer_count();
  const LinkStats link = parts_.link.stats();
  record.link = link.since(link_);
  link_ = link;
  parts_.on_cycle(record);
}

}  // namespace edgedraft::client
