#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "server/passes/client.h"
#include "server/passes/run.h"
#include "server/proposers/speculation.h"
#include "server/sessions/pass.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"

namespace edgedraft {

// Tokens to append to a session: a Prefill or a Resume.
struct PromptRequest {
  std::uint32_t kept_count = 0;  // tokens written offline that became context
  bool is_new = false;           // it brought tokens: more than going on after a stream
  std::uint32_t rows_from = 0;   // the first position whose rows the client lacks
  bool waits = false;            // in line for memory, and holds none
  std::unique_ptr<Run> run{};    // that begins with its answer; null: none
};

// Goes on as far as its client's credit reaches, one step per pass.
struct RunRequest {
  std::unique_ptr<Run> run;
  Drafted drafted{};  // what the server has for its next pass
  // Tokens that the session had then, where it stands beside the hints; 0: nothing was made yet.
  std::size_t drafted_behind = 0;
  Instant begun{};          // its step, or its last pause ended
  Instant economy_until{};  // while it has no hints, it waits for some
  // No pass before then: hints are on their way that are worth more than the time.
  std::optional<Instant> held_until{};
  Duration held{};  // how long it has waited for some in this step
};

// A request that takes part in passes.
struct Request {
  Client client;
  Session* session;
  std::uint32_t round;
  Instant posted;
  std::variant<PromptRequest, RunRequest> work;
  std::optional<Instant> started{};
  bool was_paused = false;           // at the last look
  const PassShare* share = nullptr;  // in a pass that has run, until what came of it is settled

  bool is_prompt() const { return std::holds_alternative<PromptRequest>(work); }
  // A prompt in line for memory.
  bool waits() const {
    const auto* prompt = std::get_if<PromptRequest>(&work);
    return prompt != nullptr && prompt->waits;
  }
  const RunRequest* run() const { return std::get_if<RunRequest>(&work); }
  RunRequest* run() { return std::get_if<RunRequest>(&work); }
  // A run that waits for its client, which does not read, or gives neither credit nor, under
  // lockstep, the hints for the next pass.
  bool paused() const {
    const RunRequest* const of = run();
    return of != nullptr &&
           (client.reply->full() || session->target.tokens().size() >= of->run->credit() ||
            of->run->lacks_hints());
  }
  // A run that waits for hints.
  bool held() const { return run() != nullptr && run()->held_until; }
  // It is paused no more: until then its client kept it waiting, and not the server.
  void go_on(Instant at) {
    was_paused = false;
    posted = at;
    if (RunRequest* of = run()) of->begun = at;
  }
  // It waits for hints no more: until then it had no need of a turn.
  void end_hold(Instant at) {
    if (!held()) return;
    const Instant end = std::max(posted, std::min(at, *run()->held_until));
    run()->held += end - posted;
    posted = end;
    run()->held_until.reset();
  }
  bool ready() const { return !waits() && !paused() && !held(); }
};

}  // namespace edgedraft
