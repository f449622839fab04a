#include "server/passes/admission.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

namespace edgedraft {
namespace {

constexpr const char* kLackOfMemory =
    "the server gave this session's keys and values up for lack of memory: it needs a larger "
    "--kv-memory";
constexpr const char* kLackOfSessions =
    "the server gave this session up, as it was paused and all sessions were in use: it needs a "
    "larger --max-sessions";

// The request that gives up its memory for the first draft: the last paused stream; if none is
// paused, the newest of the other drafts; if there is none either, the first draft itself.
std::deque<Request>::iterator last_to_hold_pages(std::deque<Request>& turns, const Session* first) {
  auto last = turns.end();
  for (auto it = turns.begin(); it != turns.end(); ++it) {
    if (it->is_prompt() || it->session == first) continue;
    if (last == turns.end() || it->paused() || !last->paused()) last = it;
  }
  return last != turns.end() ? last : std::ranges::find(turns, first, &Request::session);
}

}  // namespace

bool Admission::enter(Request& prompt) {
  Session& session = *prompt.session;
  // A prompt does not jump the queue. Nor does it take what a draft waits for: prompts that come
  // one after the other would keep that out for as long as they come.
  const bool nobody_waits = waiting_count_ == 0 && waiting_draft_ == nullptr;
  if (nobody_waits && sessions_.admit(session, prompt.posted)) return true;
  if (waiting_count_ >= waiting_max_) {
    turn_away(
        prompt, Refusal::no_room,
        {Errc::refused,
         "the server's memory for keys and values is in use and " + std::to_string(waiting_count_) +
             " prompts wait for it already: try again later, or start the server with a "
             "larger --kv-memory"});
    return false;
  }
  session.target.drop_cache();
  std::get<PromptRequest>(prompt.work).waits = true;
  ++waiting_count_;
  return true;
}

void Admission::leave(const Request& request) {
  request.session->target.abandon();
  waiting_count_ -= request.waits() ? 1 : 0;
  stops_waiting(request.session);
}

void Admission::turn_away(const Request& request, Refusal why, Error error) {
  leave(request);
  if (request.is_prompt()) sessions_.forget(request.client.connection_id);
  delivery_.refuse(request.client, request.round, why, std::move(error));
}

void Admission::admit(std::deque<Request>& turns) {
  waiting_draft_ = nullptr;
  if (secure_first_draft(turns)) admit_waiting(turns);
}

bool Admission::secure_first_draft(std::deque<Request>& turns) {
  const auto found = std::find_if(turns.begin(), turns.end(), [](const Request& request) {
    // A run that waits for hints wants no pass, and memory for one would be kept from whom it
    // helps.
    return !request.is_prompt() && request.ready();
  });
  if (found == turns.end()) return true;
  Session* const first = found->session;
  while (!sessions_.grow(*first)) {
    const bool any_prompt = std::any_of(turns.begin(), turns.end(), [](const Request& request) {
      return request.is_prompt() && !request.waits();
    });
    if (any_prompt) {
      waiting_draft_ = first;
      return false;
    }
    const auto last = last_to_hold_pages(turns, first);
    const bool was_first = last->session == first;
    give_up(turns, last, kLackOfMemory);
    if (was_first) return true;
  }
  return true;
}

bool Admission::give_up_paused(std::deque<Request>& turns, Instant used_before) {
  auto chosen = turns.end();
  for (auto it = turns.begin(); it != turns.end(); ++it) {
    if (!it->paused() || it->session->used > used_before) continue;
    if (chosen == turns.end() || it->session->used < chosen->session->used) chosen = it;
  }
  if (chosen == turns.end()) return false;
  give_up(turns, chosen, kLackOfSessions);
  return true;
}

void Admission::give_up(std::deque<Request>& turns, std::deque<Request>::iterator request,
                        const char* why) {
  delivery_.refuse(request->client, request->round, Refusal::session_unknown,
                   {Errc::session_unknown, why});
  stops_waiting(request->session);
  sessions_.give_way(request->client.connection_id);
  turns.erase(request);
}

void Admission::admit_waiting(std::deque<Request>& turns) {
  while (waiting_count_ > 0) {
    Request* first = nullptr;
    for (Request& request : turns) {
      if (request.waits() && (first == nullptr || request.posted < first->posted)) {
        first = &request;
      }
    }
    if (first == nullptr) return;
    if (sessions_.admit(*first->session, first->posted)) {
      std::get<PromptRequest>(first->work).waits = false;
      --waiting_count_;
      continue;
    }
    if (sessions_.is_patient(first->posted)) return;
    const auto paused =
        std::find_if(turns.rbegin(), turns.rend(), [](const Request& r) { return r.paused(); });
    if (paused == turns.rend()) return;
    give_up(turns, std::prev(paused.base()), kLackOfMemory);
  }
}

}  // namespace edgedraft
