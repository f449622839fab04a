#include "server/passes/admission.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace edgedraft::server {
namespace {

constexpr const char* kLackOfMemory =
    "the server evicted this session because its memory for KV caches is full: start the server "
    "with a larger --kv-memory";
constexpr const char* kLackOfSessions =
    "the server evicted this paused session because all sessions were in use: start the server "
    "with a larger --max-sessions";

// The run that yields memory to the first draft: the last paused one, else the newest other draft,
// else the first draft itself.
std::list<RunTurn>::iterator last_to_hold_pages(std::list<RunTurn>& runs, const Session* first) {
  auto last = runs.end();
  for (auto it = runs.begin(); it != runs.end(); ++it) {
    if (it->session == first) continue;
    if (last == runs.end() || it->paused() || !last->paused()) last = it;
  }
  return last != runs.end() ? last : std::ranges::find(runs, first, &RunTurn::session);
}

}  // namespace

bool Admission::enter(PromptTurn& prompt) {
  Session& session = *prompt.session;
  // A prompt neither jumps the queue nor takes memory that a draft awaits; a steady flow of prompts
  // would starve the draft.
  const bool queue_is_empty = waiting_count_ == 0 && waiting_draft_ == nullptr;
  if (queue_is_empty && sessions_.admit(session, prompt.posted)) return true;
  if (waiting_count_ >= waiting_max_) {
    turn_away(prompt, Refusal::no_room,
              {Errc::refused,
               "the server's memory for KV caches is full and " + std::to_string(waiting_count_) +
                   " prompts already wait for it: try again later, or start the server with a "
                   "larger --kv-memory"});
    return false;
  }
  session.target.drop_cache();
  prompt.waits = true;
  ++waiting_count_;
  return true;
}

void Admission::leave(const PromptTurn& prompt) {
  prompt.session->target.abandon();
  waiting_count_ -= prompt.waits ? 1 : 0;
}

void Admission::leave(const RunTurn& run) {
  run.session->target.abandon();
  stops_waiting(run.session);
}

void Admission::turn_away(const PromptTurn& prompt, Refusal why, Error error) {
  leave(prompt);
  sessions_.forget(prompt.client.connection_id);
  delivery_.refuse(prompt.client, prompt.round, why, std::move(error));
}

void Admission::turn_away(const RunTurn& run, Refusal why, Error error) {
  leave(run);
  delivery_.refuse(run.client, run.round, why, std::move(error));
}

void Admission::admit(Turns& turns) {
  waiting_draft_ = nullptr;
  if (secure_first_draft(turns)) admit_waiting(turns);
}

bool Admission::secure_first_draft(Turns& turns) {
  // A run that waits for hints needs no pass; memory held for it would be idle.
  const auto found = std::ranges::find_if(turns.runs, &RunTurn::ready);
  if (found == turns.runs.end()) return true;
  Session* const first = found->session;
  while (!sessions_.grow(*first)) {
    if (std::ranges::any_of(turns.prompts, &PromptTurn::ready)) {
      waiting_draft_ = first;
      return false;
    }
    const auto last = last_to_hold_pages(turns.runs, first);
    const bool was_first = last->session == first;
    give_up(turns.runs, last, kLackOfMemory);
    if (was_first) return true;
  }
  return true;
}

bool Admission::give_up_paused(std::list<RunTurn>& runs, Instant used_before) {
  auto chosen = runs.end();
  for (auto it = runs.begin(); it != runs.end(); ++it) {
    if (!it->paused() || it->session->used > used_before) continue;
    if (chosen == runs.end() || it->session->used < chosen->session->used) chosen = it;
  }
  if (chosen == runs.end()) return false;
  give_up(runs, chosen, kLackOfSessions);
  return true;
}

void Admission::give_up(std::list<RunTurn>& runs, std::list<RunTurn>::iterator run,
                        const char* why) {
  delivery_.refuse(run->client, run->round, Refusal::session_unknown, {Errc::session_unknown, why});
  stops_waiting(run->session);
  sessions_.give_way(run->client.connection_id);
  runs.erase(run);
}

void Admission::admit_waiting(Turns& turns) {
  while (waiting_count_ > 0) {
    PromptTurn* first = nullptr;
    for (PromptTurn& prompt : turns.prompts) {
      if (prompt.waits && (first == nullptr || prompt.posted < first->posted)) first = &prompt;
    }
    if (first == nullptr) return;
    if (sessions_.admit(*first->session, first->posted)) {
      first->waits = false;
      --waiting_count_;
      continue;
    }
    if (sessions_.is_patient(first->posted)) return;
    const auto paused = std::find_if(turns.runs.rbegin(), turns.runs.rend(),
                                     [](const RunTurn& run) { return run.paused(); });
    if (paused == turns.runs.rend()) return;
    give_up(turns.runs, std::prev(paused.base()), kLackOfMemory);
  }
}

}  // namespace edgedraft::server
