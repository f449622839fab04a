#pragma once

#include <cstdint>

#include "client/generation/generation_context.h"

namespace edgedraft::client {

// Clock of an answer; records its steps if GenerationParts::on_cycle is set.
class CycleNotes : GenerationContext {
 public:
  explicit CycleNotes(const GenerationContext& context) : GenerationContext(context) {}

  // Begins the answer. Returns the time.
  Instant begin();
  // Continues an answer that has taken `elapsed`.
  void resume(Duration elapsed) { started_ = parts_.now() - elapsed; }
  Duration elapsed() const { return parts_.now() - started_; }

  // Within a run, the time since the previous verdict; under lockstep, since the hints. Call once
  // per verdict.
  Duration round_trip_of(const VerdictReceived& event, Instant taken);
  void add(CycleRecord record);
  // Records a verdict that extended the answer from `count_before` tokens.
  void add_verdict(const VerdictReceived& event, Duration round_trip, std::uint32_t count_before);

 private:
  Instant started_{};
  Instant last_received_{};
  LinkStats link_;  // at the previous record
};

}  // namespace edgedraft::client
