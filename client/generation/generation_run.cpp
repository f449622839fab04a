#include "client/generation/generation.h"

#include <algorithm>
#include <cmath>

// A server that goes on by itself, and a device that drafts ahead of what it knows.
namespace edgedraft {
namespace {

// How far beyond what is known the server may go: what it does behind a stop that only the device
// knows is wasted.
constexpr std::uint32_t kCreditAhead = 256;
// Paths that the drafter holds to be less likely are neither expanded nor sent.
const Score kFloor = std::log(0.02f);

}  // namespace

bool Generation::may_run() const {
  return options_.overlap != Overlap::off && server_.runs;
}

std::uint32_t Generation::credit() const {
  const std::uint32_t answer_end = conversation_.answer_first() + options_.tokens_max;
  const std::uint32_t most = std::min(answer_end, conversation_.count() + kCreditAhead);
  return server_.context_count == 0 ? most : std::min(most, server_.context_count);
}

wire::RunTerms Generation::run_terms() {
  request_.running = false;
  request_.credit = may_run() ? credit() : 0;
  return {.credit = request_.credit,
          .rows = request_.credit > 0 && options_.tree && memory_.wants_rows(),
          .economy = options_.overlap == Overlap::economy};
}

void Generation::begin_run() {
  request_.running = true;
  if (!options_.tree) return;
  if (!ahead_) ahead_.emplace(*parts_.drafter, DraftAhead::Options{options_.tree->breadth, kFloor});
  ahead_->begin();
  ahead_->advance({}, depth_left());
}

// Levels of a tree that are of use: the target adds a token of its own behind it.
std::uint32_t Generation::depth_left() const {
  return options_.tokens_max - std::min(options_.tokens_max, answer_count() + 1);
}

bool Generation::drafts_ahead() const {
  return request_.running && ahead_ && !ahead_->done() &&
         !(memory_.pending() && parts_.now() < request_.rows_deadline);
}

void Generation::draft_ahead() {
  const Instant before = parts_.now();
  ahead_->step();
  stats_.drafting += parts_.now() - before;
  const SentHints::News news = ahead_->news();
  if (news.nodes.empty()) return;
  stats_.drafted += static_cast<std::uint32_t>(news.nodes.size());
  send_hints(news);
}

void Generation::send_hints(const SentHints::News& news) {
  // What comes of a link that has gone down is told as an event.
  (void)parts_.link.send(wire::OutgoingHints{
      .credit = request_.credit, .first = news.first, .hints = conversation_.hints(news.nodes)});
}

void Generation::take_run(const VerdictReceived& event) {
  const wire::Verdict& verdict = event.verdict;
  const std::uint32_t before = conversation_.count();
  if (!event.rows.empty() && parts_.drafter) {
    memory_.add_cycle(event.rows_first, static_cast<std::uint32_t>(verdict.tokens.size()) + 1,
                      event.rows);
  }
  for (const std::uint32_t token : verdict.tokens) write(token, Provenance::verified);
  write(verdict.next, Provenance::verified);
  server_.count = conversation_.count();
  if (ahead_) ahead_->advance(conversation_.tokens().subspan(before), depth_left());
  const auto accepted = static_cast<std::uint32_t>(verdict.tokens.size());
  ++stats_.cycles;
  stats_.cycle_tokens += accepted + 1;
  stats_.drafted += verdict.drafted;
  stats_.accepted += accepted;
  if (const std::uint32_t now = credit(); now > request_.credit) {
    // In portions: half of it may be used before more is given.
    const bool little_left = request_.credit < conversation_.count() + kCreditAhead / 2;
    if (!little_left) return;
    request_.credit = now;
    send_hints({});
  }
}

// The answer has ended for us, and may not have for the server.
void Generation::end_run() {
  if (request_.running && request_.in_flight) {
    (void)parts_.link.send(CancelRequest{});
    request_.in_flight = false;
  }
  request_.running = false;
}

}  // namespace edgedraft
