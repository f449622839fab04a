#include "tests/support/local_link.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <variant>

#include "shared/protocol/frame.h"

namespace edgedraft::testing {
namespace {

constexpr Duration kCallTime = std::chrono::milliseconds(1);

template <class Read>
Read as_read(const wire::OutgoingMessage& message) {
  const Bytes frame = wire::encode(message);
  const auto kind = static_cast<std::uint16_t>(wire::kind_of(message));
  return std::get<Read>(wire::decode(kind, ByteView(frame).subspan(kFrameHeaderBytes)).value());
}

struct Seen {
  SeenRequest operator()(const wire::OutgoingPrefill& r) { return as_read<wire::Prefill>(r); }
  SeenRequest operator()(const wire::OutgoingResume& r) { return as_read<wire::Resume>(r); }
  SeenRequest operator()(const wire::OutgoingHints& r) { return as_read<wire::Hints>(r); }
  SeenRequest operator()(const CancelRequest& r) { return r; }
};

// A protocol error of either side fails the test.
void require(const Result<void>& result) {
  if (!result) throw std::logic_error("local link: " + result.error().message);
}

}  // namespace

TargetSession& LocalTarget::make(const wire::SessionId& id) {
  sessions_.erase(id);
  return sessions_
      .emplace(std::piecewise_construct, std::forward_as_tuple(id),
               std::forward_as_tuple(parts_.decoder, parts_.decoder.make_cache(parts_.kv_type),
                                     parts_.context_count, parts_.is_end))
      .first->second;
}

TargetSession* LocalTarget::find(const wire::SessionId& id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

wire::SessionId LocalTarget::next_id() {
  wire::SessionId id{};
  id[0] = std::byte{++ids_};
  return id;
}

ActivationLayout LocalTarget::layout() const {
  if (!parts_.tap) return {};
  const auto groups = parts_.tap->scale_groups();
  return ActivationLayout({groups.begin(), groups.end()});
}

LocalLink::LocalLink(Options options) : options_(std::move(options)) {
  for (const LinkFault& fault : options_.faults) {
    if (fault.request == 0) cut(fault.wait_calls);
  }
}

void LocalLink::try_again() {
  if (outage_calls_ == 0 && std::exchange(replaced_, false)) down_told_ = false;
}

void LocalLink::connect() {
  down_ = false;
  ++connects_;
  client_.emplace(ClientProtocolOptions{.hello = {}, .channel = {}}, options_.now);
  server_.emplace(ServerProtocolOptions{}, options_.now);
  pass_bytes();
}

void LocalLink::cut(std::uint32_t wait_calls) {
  if (client_) past_traffic_ += client_->traffic();
  client_.reset();
  server_.reset();
  jobs_.clear();
  late_rows_.reset();
  run_.reset();
  down_ = true;
  down_told_ = false;
  outage_calls_ = wait_calls;
}

Result<void> LocalLink::send(TargetRequest request) {
  if (down_) return Error{Errc::link_down, "the link is down"};
  options_.on_request(std::visit(Seen(), request));
  if (std::holds_alternative<CancelRequest>(request)) {
    client_->cancel();
    pass_bytes();
    return boost::system::in_place_value;
  }
  Result<void> sent = boost::system::in_place_value;
  if (auto* prefill = std::get_if<wire::OutgoingPrefill>(&request)) {
    sent = client_->prefill(std::move(*prefill));
  } else if (auto* resume = std::get_if<wire::OutgoingResume>(&request)) {
    sent = client_->resume(std::move(*resume));
  } else {
    sent = client_->hints(std::move(std::get<wire::OutgoingHints>(request)));
  }
  if (!sent) return sent;
  ++request_count_;
  pass_bytes();
  for (const LinkFault& fault : options_.faults) {
    if (fault.request == request_count_) apply(fault);
  }
  return boost::system::in_place_value;
}

void LocalLink::apply(const LinkFault& fault) {
  switch (fault.kind) {
    case LinkFault::Kind::lost_answer:
      while (!jobs_.empty()) run_job();
      [[fallthrough]];
    case LinkFault::Kind::replaced:
    case LinkFault::Kind::lost_request:
      replaced_ = fault.kind == LinkFault::Kind::replaced;
      cut(fault.wait_calls);
      break;
    case LinkFault::Kind::silence:
      silent_calls_ = fault.wait_calls;
      break;
    case LinkFault::Kind::forgotten:
      options_.target.forget();
      break;
    case LinkFault::Kind::refused:
      refusing_ = true;
      break;
    case LinkFault::Kind::forgetful:
      forgetful_ = true;
      options_.target.forget();
      break;
  }
}

Result<ClientEvent> LocalLink::wait_event(Instant deadline) {
  options_.now += kCallTime;
  if (late_rows_ && --late_calls_ == 0) {
    jobs_.emplace_back(*std::exchange(late_rows_, std::nullopt));
  }
  if (down_) {
    if (!std::exchange(down_told_, true)) return Error{Errc::link_down, "the connection broke"};
    if (outage_calls_ > 0) --outage_calls_;
    if (outage_calls_ == 0 && replaced_) return Error{Errc::mismatch, "another model"};
    if (outage_calls_ == 0) connect();
  } else if (silent_calls_ > 0) {
    --silent_calls_;
  }
  if (!down_ && silent_calls_ == 0) {
    if (auto event = client_->next_event()) return hand_out(*std::move(event));
    while (!jobs_.empty()) {
      run_job();
      pass_bytes();
      if (auto event = client_->next_event()) return hand_out(*std::move(event));
    }
  }
  options_.now = std::max(options_.now, deadline);
  return Error{Errc::timed_out, "no event arrived"};
}

Result<ClientEvent> LocalLink::hand_out(ClientEvent event) {
  if (std::holds_alternative<ActivationsReceived>(event)) ++chunk_count_;
  return event;
}

void LocalLink::pass_bytes() {
  require(server_->receive(options_.now, client_->take_output()));
  while (auto event = server_->next_event()) take(*std::move(event));
  require(client_->receive(options_.now, server_->take_output()));
}

void LocalLink::take(ServerEvent event) {
  if (std::holds_alternative<HelloReceived>(event)) {
    session_ = offered_session_ = options_.target.next_id();
    const ActivationLayout layout = options_.target.layout();
    const auto groups = layout.scale_groups();
    server_->accept({
        .session = session_,
        .agent = "local",
        .model = "toy",
        .context_count = options_.target.parts().context_count,
        .nodes_max = kDraftNodesMax,
        .scale_groups = {groups.begin(), groups.end()},
    });
  } else if (auto* prefill = std::get_if<PrefillRequested>(&event)) {
    jobs_.emplace_back(std::move(prefill->request));
  } else if (auto* resume = std::get_if<ResumeRequested>(&event)) {
    jobs_.emplace_back(std::move(resume->request));
  } else if (auto* received = std::get_if<HintsReceived>(&event)) {
    jobs_.emplace_back(std::move(received->hints));
  } else {
    jobs_.clear();
    late_rows_.reset();
    run_.reset();
  }
}

void LocalLink::run_job() {
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  std::visit([this](const auto& j) { work(j); }, job);
}

void LocalLink::work(const wire::Prefill& request) {
  if (std::exchange(refusing_, false)) {
    server_->refuse(request.round, {Errc::refused, "out of memory"});
    return;
  }
  TargetSession* session = options_.target.find(session_);
  if (forgetful_ || (!session && request.base_length > 0)) {
    server_->refuse(request.round, {Errc::session_unknown, "forgotten"});
    return;
  }
  // A forgotten session starts again under the name that this connection offered.
  if (!session) session_ = offered_session_;
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  answer(session ? *session : options_.target.make(session_),
         {.base_count = request.base_length,
          .tokens = request.tokens,
          .provisional_count = keep ? 0 : request.provisional_count,
          .sampling = request.sampling},
         request.round, request.activations_from, request.run);
}

void LocalLink::work(const wire::Resume& request) {
  TargetSession* session = options_.target.find(request.session);
  if (!session || request.verified_length > session->tokens().size() ||
      token_hash(session->tokens().first(request.verified_length)) != request.verified_hash) {
    server_->refuse(request.round, {Errc::session_unknown, "forgotten"});
    return;
  }
  session_ = request.session;
  const bool keep = request.policy == wire::ResyncPolicy::keep;
  answer(*session,
         {.base_count = request.verified_length,
          .tokens = request.tokens,
          .provisional_count = keep ? 0 : static_cast<std::uint32_t>(request.tokens.size()),
          .sampling = request.sampling},
         request.round, request.activations_from, request.run);
}

void LocalLink::answer(TargetSession& session, const PrefillRequest& request, std::uint32_t round,
                       std::uint32_t rows_from, const wire::RunTerms& terms) {
  const auto outcome = session.prefill(request);
  if (!outcome) {
    server_->refuse(round, outcome.error());
    return;
  }
  server_->verdict({.round = round,
                    .next = outcome->next,
                    .accepted_count = outcome->accepted_count,
                    .ending = outcome->finish});
  if (options_.target.parts().tap && rows_from < session.valid_count() &&
      !options_.holds_rows_back) {
    const RowsOwed owed{.round = round, .first = rows_from, .end = session.valid_count()};
    late_calls_ = options_.rows_after_calls;
    if (late_calls_ > 0) {
      late_rows_ = owed;
    } else {
      jobs_.emplace_back(owed);
    }
  }
  run_.reset();
  if (terms.credit == 0 || outcome->finish != Finish::none) return;
  if (terms.hold != wire::Hold::lockstep) {
    throw std::logic_error("local link: hold is not lockstep");
  }
  run_ = Run{.round = round, .terms = terms};
}

void LocalLink::work(const wire::Hints& hints) {
  if (!run_ || run_->round != hints.round) return;
  run_->terms.credit = std::max(run_->terms.credit, hints.credit);
  // Leaves out nodes beyond the credit.
  const std::uint32_t depth_max = run_->terms.credit - server_->length() - 1;
  verify(tree_of(hints.nodes, depth_max, kTokenIdEnd));
}

// Answers the run with a verdict or a refusal.
void LocalLink::verify(const DraftTree& tree) {
  TargetSession* session = options_.target.find(session_);
  if (!session || std::exchange(refusing_, false)) {
    server_->refuse(run_->round, session ? Error{Errc::refused, "out of memory"}
                                         : Error{Errc::session_unknown, "forgotten"});
    run_.reset();
    return;
  }
  const std::uint32_t first = session->valid_count();
  const auto length = static_cast<std::uint32_t>(session->tokens().size());
  const auto path = session->verify(tree);
  if (!path) {
    server_->refuse(run_->round, path.error());
    run_.reset();
    return;
  }
  wire::Verdict verdict{.round = run_->round, .next = path->next, .ending = path->finish};
  const auto brought = session->tokens().subspan(length);
  verdict.tokens.assign(brought.begin(), brought.end() - 1);
  const std::uint32_t count = session->valid_count() - first;
  if (run_->terms.rows) verdict.activations = rows(*session, first, count);
  if (verdict.ending != Finish::none) run_.reset();
  server_->verdict(std::move(verdict));
}

void LocalLink::work(const RowsOwed& owed) {
  const TargetSession* session = options_.target.find(session_);
  if (!session) return;
  const std::uint32_t count = std::min(options_.rows_a_chunk, owed.end - owed.first);
  const std::uint32_t first = owed.end - count;
  server_->activations(compress_activations(owed.round, first, count, rows(*session, first, count),
                                            wire::Codec::gzip));
  // Queues after all pending work, as a server does.
  if (first > owed.first) {
    jobs_.emplace_back(RowsOwed{.round = owed.round, .first = owed.first, .end = first});
  }
}

Bytes LocalLink::rows(const TargetSession& session, std::uint32_t first, std::uint32_t count) {
  Tap* const tap = options_.target.parts().tap;
  if (!tap) return {};
  const ActivationLayout layout = options_.target.layout();
  std::vector<float> values(std::size_t{count} * layout.cols());
  tap->read(session.cache(), first, count, values);
  return quantize_rows(layout, values);
}

LinkStats LocalLink::stats() const {
  LinkStats stats{.traffic = past_traffic_};
  if (client_) stats.traffic += client_->traffic();
  stats.bytes_up = stats.traffic.framed_bytes_out;
  stats.bytes_down = stats.traffic.framed_bytes_in;
  stats.reconnects = connects_ > 0 ? connects_ - 1 : 0;
  return stats;
}

}  // namespace edgedraft::testing
