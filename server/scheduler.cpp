#include "server/scheduler.h"

#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "shared/protocol/activation_codec.h"

namespace edgedraft {
namespace {

const Error kSessionUnknown{Errc::session_unknown, "the server no longer has this session"};

std::uint32_t microseconds(Duration d) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

std::uint32_t round_of(const Scheduler::Request& request) {
  return std::visit([](const auto& r) { return r.round; }, request);
}

wire::Ending to_wire(Finish finish) {
  switch (finish) {
    case Finish::none:
      return wire::Ending::none;
    case Finish::end_token:
      return wire::Ending::end_token;
    case Finish::context:
      return wire::Ending::context;
  }
  return wire::Ending::none;
}

SamplingParams from_wire(const wire::Sampling& s) {
  return {.temperature = s.temperature,
          .top_k = s.top_k,
          .top_p = s.top_p,
          .min_p = s.min_p,
          .seed = s.seed};
}

DraftTree tree_of(const wire::Draft& draft) {
  DraftTree tree;
  for (std::size_t i = 0; i < draft.parents.size(); ++i) {
    tree.add(draft.tokens.view()[i], draft.parents[i]);
  }
  return tree;
}

}  // namespace

wire::SessionId random_session_id() {
  wire::SessionId id;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), static_cast<int>(id.size())) != 1) {
    throw Failure({Errc::io, "the operating system gives no random numbers"});
  }
  return id;
}

Scheduler::Scheduler(ModelHost& host, const SchedulerOptions& options)
    : host_(host), options_(options), thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Scheduler::post(const Client& client, Request request) {
  const std::uint32_t round = round_of(request);
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() < options_.queue_max) {
      queue_.push_back({.client = client, .work = std::move(request), .posted = Clock::now()});
      wake_.notify_one();
      return;
    }
  }
  client.reply.refuse(round, {Errc::refused, "the server is overloaded: try again later"});
}

void Scheduler::cancel(std::uint64_t connection_id, std::uint32_t round) {
  const std::lock_guard lock(mutex_);
  cancelled_.insert({connection_id, round});
}

void Scheduler::ended(std::uint64_t connection_id) {
  const std::lock_guard lock(mutex_);
  ended_.insert(connection_id);
  wake_.notify_one();
}

void Scheduler::run() {
  while (const std::optional<Job> taken = next()) {
    const Job& job = *taken;
    std::visit(
        [&](const auto& request_or_rows) {
          constexpr bool kIsRequest =
              std::is_same_v<std::decay_t<decltype(request_or_rows)>, Request>;
          try {
            if constexpr (kIsRequest) {
              std::visit([&](const auto& request) { work(job, request); }, request_or_rows);
            } else {
              work(job, request_or_rows);
            }
          } catch (const DeviceError& e) {
            // Its tokens and its cache may disagree now; the client has all that is needed to
            // fill a new one.
            forget_session(job.client);
            if constexpr (kIsRequest) {
              job.client.reply.refuse(round_of(request_or_rows), {Errc::refused, e.what()});
            }
          }
        },
        job.work);
  }
}

// Waits for work. Nothing when the server stops.
std::optional<Scheduler::Job> Scheduler::next() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty() || !ended_.empty(); });
    if (stopping_) return std::nullopt;
    for (auto& [id, session] : sessions_) {
      if (ended_.contains(session.connection_id)) session.connection_id = 0;
    }
    std::erase_if(queue_, [&](const Job& waiting) { return dropped(waiting); });
    for (const std::uint64_t connection : ended_) {
      bound_.erase(connection);
      std::erase_if(cancelled_, [&](const auto& c) { return c.first == connection; });
    }
    ended_.clear();
    if (queue_.empty()) continue;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    return job;
  }
}

bool Scheduler::dropped(const Job& job) {
  if (ended_.contains(job.client.connection_id)) return true;
  const std::uint32_t round = std::holds_alternative<Request>(job.work)
                                  ? round_of(std::get<Request>(job.work))
                                  : std::get<RowsOwed>(job.work).round;
  return cancelled_.contains({job.client.connection_id, round});
}

void Scheduler::work(const Job& job, const wire::Prefill& request) {
  const auto session = own_session(job.client);
  if (!session) {
    job.client.reply.refuse(request.round, session.error());
    return;
  }
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  answer(job, **session,
         {.base_count = request.base_length,
          .tokens = request.tokens.view(),
          .provisional_count = keep ? 0 : request.provisional_count,
          .sampling = from_wire(request.sampling)},
         request.round, keep ? request.provisional_count : 0, request.activations_from);
}

void Scheduler::work(const Job& job, const wire::Resume& request) {
  const auto session = resumed_session(job.client, request);
  if (!session) {
    job.client.reply.refuse(request.round, session.error());
    return;
  }
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  answer(job, **session,
         {.base_count = request.verified_length,
          .tokens = request.tokens.view(),
          .provisional_count = keep ? 0 : request.tokens.count(),
          .sampling = from_wire(request.sampling)},
         request.round, keep ? request.tokens.count() : 0, request.activations_from);
}

void Scheduler::answer(const Job& job, Session& session, const PrefillRequest& request,
                       std::uint32_t round, std::uint32_t accepted_if_kept,
                       std::uint32_t rows_from) {
  const Instant started = Clock::now();
  const auto outcome = session.target.prefill(request);
  if (!outcome) {
    job.client.reply.refuse(round, outcome.error());
    return;
  }
  session.used = Clock::now();
  job.client.reply.verdict(
      timed(job,
            {.round = round,
             .next = outcome->next,
             .accepted_count = accepted_if_kept > 0 ? accepted_if_kept : outcome->accepted_count,
             .ending = to_wire(outcome->finish)},
            started));
  if (!job.client.tap || rows_from >= session.target.valid_count()) return;
  const std::lock_guard lock(mutex_);
  queue_.push_back(
      {.client = job.client,
       .work = RowsOwed{.round = round, .first = rows_from, .end = session.target.valid_count()},
       .posted = Clock::now()});
}

void Scheduler::work(const Job& job, const wire::Draft& request) {
  Session* const session = find_session(job.client);
  if (!session) {
    job.client.reply.refuse(request.round, kSessionUnknown);
    return;
  }
  const Instant started = Clock::now();
  TargetSession& target = session->target;
  const std::uint32_t first = target.valid_count();
  const auto path = target.verify(tree_of(request));
  if (!path) {
    job.client.reply.refuse(request.round, path.error());
    return;
  }
  session->used = Clock::now();
  wire::Verdict verdict{
      .round = request.round, .next = path->next, .ending = to_wire(path->finish)};
  for (const std::uint32_t row : path->path) verdict.path.push_back(static_cast<std::uint8_t>(row));
  if (job.client.tap) {
    verdict.activations = rows(job.client, *session, first, target.valid_count() - first);
  }
  job.client.reply.verdict(timed(job, std::move(verdict), started));
}

// A chunk at a time, behind whatever else waits: a long prompt's rows hold up nobody's verdict.
void Scheduler::work(const Job& job, const RowsOwed& owed) {
  const Session* const session = find_session(job.client);
  if (!session) return;
  const auto groups = job.client.tap->scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  const std::uint32_t count = std::min(chunk_rows(layout), owed.end - owed.first);
  const std::uint32_t first = owed.end - count;
  job.client.reply.activations(
      compress_activations(owed.round, first, count, rows(job.client, *session, first, count)));
  if (first == owed.first) return;
  const std::lock_guard lock(mutex_);
  queue_.push_back({.client = job.client,
                    .work = RowsOwed{.round = owed.round, .first = owed.first, .end = first},
                    .posted = Clock::now()});
}

Scheduler::Session* Scheduler::find_session(const Client& client) {
  const auto bound = bound_.find(client.connection_id);
  if (bound == bound_.end()) return nullptr;
  const auto found = sessions_.find(bound->second);
  if (found == sessions_.end() || found->second.connection_id != client.connection_id) {
    return nullptr;
  }
  return &found->second;
}

void Scheduler::forget_session(const Client& client) {
  const auto bound = bound_.find(client.connection_id);
  if (bound == bound_.end()) return;
  sessions_.erase(bound->second);
  bound_.erase(bound);
}

Result<Scheduler::Session*> Scheduler::own_session(const Client& client) {
  if (Session* session = find_session(client)) return session;
  if (auto room = make_room(); !room) return room.error();
  const Tokenizer& tokenizer = host_.tokenizer();
  TargetSession target(host_.decoder(), host_.context_count(),
                       [&tokenizer](std::uint32_t token) { return tokenizer.is_end(token); });
  // Under the id that Welcome told; a client that has lost that one to itself cannot resume this
  // one.
  const wire::SessionId id =
      sessions_.contains(client.session) ? random_session_id() : client.session;
  bound_[client.connection_id] = id;
  const auto made = sessions_.emplace(id, Session{.target = std::move(target),
                                                  .identity = client.identity,
                                                  .connection_id = client.connection_id,
                                                  .used = Clock::now()});
  return &made.first->second;
}

Result<Scheduler::Session*> Scheduler::resumed_session(const Client& client,
                                                       const wire::Resume& request) {
  const auto found = sessions_.find(request.session);
  if (found == sessions_.end() || found->second.identity != client.identity) return kSessionUnknown;
  Session& session = found->second;
  const auto tokens = session.target.tokens();
  if (request.verified_length > tokens.size() ||
      wire::token_hash(tokens.first(request.verified_length)) != request.verified_hash) {
    return kSessionUnknown;
  }
  session.connection_id = client.connection_id;
  bound_[client.connection_id] = request.session;
  return &session;
}

// Room for one more session: the longest unused one that no connection holds gives way.
Result<void> Scheduler::make_room() {
  const std::uint64_t by_memory =
      options_.kv_bytes_max > 0 ? options_.kv_bytes_max / host_.session_bytes() : ~std::uint64_t{0};
  while (sessions_.size() >= std::min<std::uint64_t>(options_.sessions_max, by_memory)) {
    auto oldest = sessions_.end();
    for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
      if (it->second.connection_id != 0) continue;
      if (oldest == sessions_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    if (oldest == sessions_.end()) {
      return Error{Errc::refused, "all of the server's sessions are in use: try again later"};
    }
    sessions_.erase(oldest);
  }
  return boost::system::in_place_value;
}

Bytes Scheduler::rows(const Client& client, const Session& session, std::uint32_t first,
                      std::uint32_t count) {
  const auto groups = client.tap->scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  std::vector<float> values(std::size_t{count} * layout.cols());
  client.tap->read(session.target.cache(), first, count, values);
  return quantize_rows(layout, values);
}

wire::Verdict Scheduler::timed(const Job& job, wire::Verdict verdict, Instant started) const {
  if (options_.pace > Duration::zero()) std::this_thread::sleep_until(started + options_.pace);
  verdict.queue_us = microseconds(started - job.posted);
  verdict.verify_us = microseconds(Clock::now() - started);
  verdict.row_budget = kMaskRowsMax;
  return verdict;
}

}  // namespace edgedraft
