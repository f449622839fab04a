#pragma once

#include <cstdint>
#include <optional>

#include "client/control/run_control.h"
#include "client/generation/draft_ahead.h"
#include "client/generation/generation_context.h"

namespace edgedraft {

// Drafts for a server that goes on by itself, ahead of what the device knows, and decides how.
class RunDrafting : GenerationContext {
 public:
  explicit RunDrafting(const GenerationContext& context)
      : GenerationContext(context), control_(options_.known) {}

  const RunKnowledge& known() const { return control_.known(); }
  void begin_answer() { is_counted_ = false; }
  void begin_turn() {
    if (!parts_.is_timed()) is_timed_ = false;
  }
  void observe_link(Duration round_trip) { control_.observe_link(round_trip); }

  // For a request whose answer makes the session at least so long.
  wire::RunTerms run_terms(std::uint32_t length_min);
  void begin();
  // A verdict of the run, whose tokens stand from `count_before` on.
  void take(const wire::Verdict& verdict, std::uint32_t count_before);
  // Measures the rate of the run, and decides anew.
  void look(bool ended);

  bool awaits_rows() const;
  bool drafts_ahead() const;
  // Requires  drafts_ahead()
  void step();
  bool holds_news() const;
  void send_news();
  // Under lockstep: all that the next pass verifies.
  Result<void> send_draft();

 private:
  RunControl::Decision plan_run();
  Hold run_hold() const { return doing_.kind == RunKind::economy ? Hold::economy : Hold::none; }
  void apply(const RunControl::Decision& decision);
  void begin_stretch();
  std::uint32_t credit_now() const;
  // Knowledge of the target's choices: a grammar, and the noise of the draw. Empty: none.
  TreeGrowth::Choice draft_choice();
  std::uint32_t depth_left() const;
  void send_hints(SentHints::News news);

  RunControl control_;
  std::optional<DraftAhead> ahead_;  // once a run has begun that is drafted for
  std::uint32_t credit_ = 0;         // length up to which the server may go on
  RunControl::Decision doing_{};
  Instant since_{};       // of the present stretch
  bool is_timed_ = true;  // in all turns since then
  std::uint32_t tokens_ = 0;
  bool begins_ = false;  // a stretch, measured from the first look after `settled_`
  Instant settled_{};
  bool step_is_cold_ = false;  // the next one takes in text, too
  // The control knows of the answer. Runs after an outage belong to the same answer.
  bool is_counted_ = false;
};

}  // namespace edgedraft
