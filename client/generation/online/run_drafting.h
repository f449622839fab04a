#pragma once

#include <cstdint>
#include <optional>

#include "client/control/run_control.h"
#include "client/generation/generation_context.h"
#include "client/generation/online/draft_ahead.h"

namespace edgedraft::client {

// Drafts ahead for a server that continues by itself, and decides how.
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

  // Terms for a request whose answer makes the session at least `length_min` tokens long.
  wire::RunTerms run_terms(std::uint32_t length_min);
  void begin();
  // Takes a verdict of the run, whose tokens begin at `count_before`.
  void take(const wire::Verdict& verdict, std::uint32_t count_before);
  // Measures the run's rate and decides again.
  void look(bool ended);

  bool awaits_rows() const;
  bool drafts_ahead() const;
  // Requires  drafts_ahead()
  void step();
  bool holds_news() const;
  void send_news();
  // Under lockstep: sends the whole tree that the next pass verifies.
  Result<void> send_draft();

 private:
  RunControl::Decision plan_run();
  Hold run_hold() const { return doing_.kind == RunKind::economy ? Hold::economy : Hold::none; }
  void apply(const RunControl::Decision& decision);
  void begin_window();
  std::uint32_t credit_now() const;
  // Knowledge of the target's choices: grammar and sampling noise. Empty: none.
  TreeGrowth::Choice draft_choice();
  std::uint32_t depth_left() const;
  void send_hints(SentHints::Batch batch);

  RunControl control_;
  std::optional<DraftAhead> ahead_;  // set once a run with drafting has begun
  std::uint32_t credit_ = 0;         // length up to which the server may continue
  RunControl::Decision doing_{};
  Instant since_{};       // start of the current interval
  bool is_timed_ = true;  // in all turns since then
  std::uint32_t tokens_ = 0;
  bool begins_ = false;  // an interval begins, measured from the first look after `settled_`
  Instant settled_{};
  bool step_is_cold_ = false;  // the next step reads text, too
  // The control counts this answer. Runs after an outage belong to the same answer.
  bool is_counted_ = false;
};

}  // namespace edgedraft::client
