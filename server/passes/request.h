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

// A client's tree, answered in one pass.
struct DraftRequest {
  std::uint32_t valid_from;  // the first position that becomes valid
  std::uint32_t rows;        // of the tree, root included
};

// The server goes on alone, one step per pass.
struct StreamRequest {
  std::uint32_t left;      // tokens still to bring
  std::uint32_t rows = 0;  // of its next step, root included and probes not
  Drafted drafted{};       // what the server drafted for that step
};

// The server goes on alone as far as a client's credit reaches, one step per pass.
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
  std::variant<PromptRequest, DraftRequest, StreamRequest, RunRequest> work;
  std::optional<Instant> started{};
  // How long the passes it took part in were paced to take, and how long they took to compute.
  Duration pace{};
  Duration computed{};
  bool was_paused = false;               // at the last look
  std::optional<Instant> streamed_at{};  // its last verdict, if it goes on and has not paused since
  const PassShare* share = nullptr;      // in a pass that has run, until what came of it is settled

  bool is_prompt() const { return std::holds_alternative<PromptRequest>(work); }
  bool is_stream() const { return std::holds_alternative<StreamRequest>(work); }
  // A prompt in line for memory.
  bool waits() const {
    const auto* prompt = std::get_if<PromptRequest>(&work);
    return prompt != nullptr && prompt->waits;
  }
  const RunRequest* run() const { return std::get_if<RunRequest>(&work); }
  RunRequest* run() { return std::get_if<RunRequest>(&work); }
  // It makes one step after another by itself.
  bool streams() const { return is_stream() || run() != nullptr; }
  // A stream or run whose client does not read, or gives no more credit.
  bool paused() const {
    if (const RunRequest* of = run()) {
      return client.reply->full() || session->target.tokens().size() >= of->run->credit();
    }
    return is_stream() && client.reply->full();
  }
  // A run that waits for hints.
  bool held() const { return run() != nullptr && run()->held_until; }
  // It is paused no more: until then its client kept it waiting, and not the server.
  void go_on(Instant at) {
    was_paused = false;
    posted = at;
    streamed_at.reset();
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
