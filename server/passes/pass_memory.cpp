#include <algorithm>
#include <iterator>

#include "server/passes/pass_loop.h"
#include "shared/base/check.h"

// The part of PassLoop that deals with memory for keys and values. Why nobody waits for ever:
// prompts in line hold nothing; prompts that run have all their pages and end; so only drafts ask
// for more while they hold some, and of these the first one gets it, since a whole context fits
// into the pool and the others, paused streams before all, give theirs up.
namespace edgedraft {

bool PassLoop::admit_or_queue(Active& active) {
  Session& session = *active.session;
  // Whoever comes later does not overtake the line.
  if (waiting_count_ == 0 && sessions_.admit(session, active.posted)) return true;
  if (waiting_count_ >= options_.sessions.waiting_max) {
    turn_away(
        active, Refusal::no_room,
        {Errc::refused, "the server's memory for keys and values is in use and " +
                            std::to_string(waiting_count_) +
                            " prompts wait for it already: try again later, or start the server "
                            "with a larger --kv-memory"});
    return false;
  }
  session.target.drop_cache();
  active.waits = true;
  ++waiting_count_;
  return true;
}

void PassLoop::admit_waiting() {
  while (waiting_count_ > 0) {
    Active* first = nullptr;
    for (Active& active : turns_) {
      if (active.waits && (first == nullptr || active.posted < first->posted)) first = &active;
    }
    EDGEDRAFT_CHECK(first != nullptr);
    if (!sessions_.admit(*first->session, first->posted)) return;
    first->waits = false;
    --waiting_count_;
  }
}

bool PassLoop::secure_first_draft() {
  const auto found = std::find_if(turns_.begin(), turns_.end(), [](const Active& a) {
    return !a.session->target.divisible() && !a.paused();
  });
  if (found == turns_.end()) return true;
  Session* const first = found->session;
  while (!sessions_.grow(*first)) {
    const bool any_prompt = std::any_of(turns_.begin(), turns_.end(), [](const Active& a) {
      return a.session->target.divisible() && !a.waits;
    });
    if (any_prompt) return false;
    const auto last = last_to_hold_pages();
    const bool was_first = last->session == first;
    refuse(last->client, last->round, Refusal::session_unknown,
           {Errc::session_unknown,
            "the server gave this session's keys and values up for lack of memory: it needs a "
            "larger --kv-memory"});
    sessions_.forget(last->client.connection_id);
    turns_.erase(last);
    if (was_first) return true;
  }
  return true;
}

std::deque<PassLoop::Active>::iterator PassLoop::last_to_hold_pages() {
  auto last = turns_.end();
  for (auto it = turns_.begin(); it != turns_.end(); ++it) {
    if (it->session->target.divisible()) continue;
    if (last == turns_.end() || it->paused() || !last->paused()) last = it;
  }
  return last;
}

void PassLoop::remember(const std::vector<PassShare>& shares) {
  for (Active& active : turns_) {
    const bool took_part = std::any_of(shares.begin(), shares.end(), [&](const PassShare& share) {
      return share.session == &active.session->target;
    });
    if (took_part) sessions_.remember(*active.session);
  }
}

}  // namespace edgedraft
