#pragma once

#include <cstdint>

#include "client/generation/generation_context.h"

namespace edgedraft {

// The clock of an answer, and the records of its steps if GenerationParts::on_cycle takes any.
class CycleNotes : GenerationContext {
 public:
  explicit CycleNotes(const GenerationContext& context) : GenerationContext(context) {}

  // The answer begins. Returns the time.
  Instant begin();
  // The answer goes on after it had taken so long.
  void resume(Duration elapsed) { started_ = parts_.now() - elapsed; }
  Duration elapsed() const { return parts_.now() - started_; }

  // Within a run, the time since the verdict before, or under lockstep since the hints. To be asked
  // once per verdict.
  Duration round_trip_of(const VerdictReceived& event, Instant taken);
  void add(CycleRecord record);
  // The verdict took the answer on from `count_before` tokens.
  void add_verdict(const VerdictReceived& event, Duration round_trip, std::uint32_t count_before);

 private:
  Instant started_{};
  Instant last_received_{};
  LinkStats link_;  // when the last record was made
};

}  // namespace edgedraft
