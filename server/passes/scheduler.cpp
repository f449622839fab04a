#include "server/passes/scheduler.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "shared/protocol/limits.h"

namespace edgedraft::server {
namespace {

constexpr Duration kMemoryCheckEvery = std::chrono::milliseconds(20);
constexpr Duration kLookAtStepEvery = std::chrono::seconds(1);
// Bounds the cost of queued hints per connection: one protocol burst. During a long pass more may
// arrive; their nodes are dropped.
constexpr auto kHintsWaitingMax = static_cast<std::size_t>(kHintsBurst);

std::size_t cost_of(const wire::Hints& hints) {
  return kHintMessageCost + hints.nodes.size();
}

}  // namespace

Scheduler::Scheduler(const SessionParts& parts, const SchedulerOptions& options)
    : options_(options), loop_(parts, options.passes, [] { return Clock::now(); }) {
  if (options.prepare) options.prepare(loop_);
  thread_ = std::thread([this] { run(); });
  watch_ = std::thread([this] { watch(); });
}

Scheduler::~Scheduler() {
  stop(Duration::zero());
  thread_.join();
  watch_.join();
}

bool Scheduler::stop(Duration patience) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_one();
  return end_.wait_for(lock, patience, [this] { return ended_; });
}

void Scheduler::post(const Client& client, TargetWork request) {
  const std::uint32_t round = round_of(request);
  {
    const std::lock_guard lock(mutex_);
    if (request_count_ - paused_count_ < options_.queue_max) {
      ++request_count_;
      metrics().requests_open.set(request_count_);
      events_.push_back(
          Arrival{.client = client, .request = std::move(request), .posted = Clock::now()});
      wake_.notify_one();
      return;
    }
  }
  metrics().refused(Refusal::queue_full);
  client.reply->refuse(round, {Errc::refused, "the server is overloaded: try again later"});
}

void Scheduler::hints(std::uint64_t connection_id, wire::Hints hints) {
  const std::lock_guard lock(mutex_);
  WaitingHints& waiting = waiting_hints_[connection_id];
  // Keeps complete hints, because their run waits for them. A connection has one such message at a
  // time.
  if (!hints.complete && waiting.cost + cost_of(hints) > kHintsWaitingMax) hints.nodes.clear();
  const bool only_credit = hints.nodes.empty() && !hints.complete;
  if (only_credit && waiting.credit) {
    // Credit is an absolute position and never shrinks, so one message replaces several. It takes
    // the last place, so that `hold` is the latest value.
    const wire::Hints& before = std::get<HintArrival>(**waiting.credit).hints;
    if (before.round == hints.round) {
      hints.credit = std::max(hints.credit, before.credit);
      drop_hints(*waiting.credit);
    }
  }
  waiting.cost += cost_of(hints);
  events_.push_back(HintArrival{connection_id, std::move(hints), Clock::now()});
  if (only_credit) waiting.credit = std::prev(events_.end());
  wake_.notify_one();
}

std::list<Scheduler::Event>::iterator Scheduler::drop_hints(std::list<Event>::iterator arrival) {
  const auto& dropped = std::get<HintArrival>(*arrival);
  WaitingHints& waiting = waiting_hints_.at(dropped.connection_id);
  waiting.cost -= cost_of(dropped.hints);
  if (waiting.credit == arrival) waiting.credit.reset();
  return events_.erase(arrival);
}

void Scheduler::cancel(std::uint64_t connection_id, std::uint32_t round) {
  const std::lock_guard lock(mutex_);
  // Owed activations of an earlier prompt are obsolete, too; any cancellation drops them.
  if (drop_waiting(connection_id, round) && is_cancelling(connection_id)) return;
  events_.push_back(Cancellation{connection_id, round});
  wake_.notify_one();
}

bool Scheduler::is_cancelling(std::uint64_t connection_id) const {
  return std::ranges::any_of(events_, [&](const Event& n) {
    const auto* cancellation = std::get_if<Cancellation>(&n);
    return cancellation != nullptr && cancellation->connection_id == connection_id;
  });
}

bool Scheduler::drop_waiting(std::uint64_t connection_id, std::optional<std::uint32_t> round) {
  const auto is_wanted = [&](std::uint64_t connection, std::uint32_t of) {
    return connection == connection_id && (!round || of == *round);
  };
  bool dropped = false;
  for (auto n = events_.begin(); n != events_.end();) {
    const auto* arrival = std::get_if<Arrival>(&*n);
    const auto* hints = std::get_if<HintArrival>(&*n);
    if (hints != nullptr && is_wanted(hints->connection_id, hints->hints.round)) {
      n = drop_hints(n);
    } else if (arrival != nullptr &&
               is_wanted(arrival->client.connection_id, round_of(arrival->request))) {
      n = events_.erase(n);
      --request_count_;
      dropped = true;
    } else {
      ++n;
    }
  }
  metrics().requests_open.set(request_count_);
  return dropped;
}

// Drops the connection's queued requests, which must not fill the queue.
void Scheduler::ended(std::uint64_t connection_id) {
  const std::lock_guard lock(mutex_);
  drop_waiting(connection_id, std::nullopt);
  events_.push_back(Ending{connection_id});
  wake_.notify_one();
}

void Scheduler::wake() {
  const std::lock_guard lock(mutex_);
  wake_.notify_one();
}

void Scheduler::run() {
  // Keeps serving after any failure: clients must not be able to end the process.
  const auto guarded = [this](const auto& work) {
    try {
      work();
    } catch (const std::exception& e) {
      loop_.give_up_all(e);
    }
  };
  std::list<Event> events;
  while (take(events)) {
    metrics().health.step_begins(Clock::now());
    for (const Event& event : events) guarded([&] { dispatch(event); });
    events.clear();
    guarded([&] { loop_.step(); });
    metrics().health.step_ended();
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  end_.notify_all();
}

void Scheduler::watch() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kLookAtStepEvery, [this] { return ended_; })) {
    lock.unlock();
    metrics().health.look_at_step(Clock::now());
    lock.lock();
  }
}

void Scheduler::dispatch(const Event& event) {
  if (const auto* arrival = std::get_if<Arrival>(&event)) {
    loop_.begin(arrival->client, arrival->request, arrival->posted);
  } else if (const auto* hints = std::get_if<HintArrival>(&event)) {
    loop_.hints(hints->connection_id, hints->hints, hints->posted);
  } else if (const auto* cancellation = std::get_if<Cancellation>(&event)) {
    loop_.cancel(cancellation->connection_id, cancellation->round);
  } else {
    loop_.end(std::get<Ending>(event).connection_id);
  }
}

bool Scheduler::take(std::list<Event>& events) {
  std::unique_lock lock(mutex_);
  request_count_ = loop_.active_count();
  paused_count_ = loop_.paused_count();
  for (const Event& n : events_) request_count_ += std::holds_alternative<Arrival>(n);
  metrics().requests_open.set(request_count_);
  const auto is_due = [&] { return stopping_ || !events_.empty() || !loop_.idle(); };
  std::optional<Instant> until = loop_.due();
  // Sessions become idle enough for eviction by time alone.
  if (loop_.waiting_count() > 0) {
    const Instant check = Clock::now() + kMemoryCheckEvery;
    until = until ? std::min(*until, check) : check;
  }
  if (until) {
    wake_.wait_until(lock, *until, is_due);
  } else {
    wake_.wait(lock, is_due);
  }
  events.swap(events_);
  waiting_hints_.clear();
  return !stopping_;
}

}  // namespace edgedraft::server
