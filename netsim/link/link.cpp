#include "netsim/link/link.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "netsim/link/options.h"
#include "shared/base/check.h"
#include "shared/base/random.h"

namespace edgedraft::netsim {
namespace {

enum Draw : unsigned { kDelay, kLoss, kBurstLoss, kBurstStep, kDrawCount };
// A separate sequence, so that links without these features keep their draws.
enum RadioDraw : unsigned { kRest, kFlowPhase, kFlowSpell, kRadioDrawCount };

}  // namespace

Link::Link(LinkOptions options, std::uint64_t seed, Instant start)
    : options_(std::move(options)),
      seed_(seed),
      start_(start),
      free_at_(start),
      last_arrives_(start) {
  EDGEDRAFT_CHECK(options_.trace || options_.bits_per_second > 0);
  if (options_.trace) trace_.emplace(*std::exchange(options_.trace, std::nullopt));
}

double Link::uniform(std::uint64_t number, unsigned which) const {
  return uniform_at(seed_, number * kDrawCount + which);
}

double Link::radio_uniform(std::uint64_t number, unsigned which) const {
  return uniform_at(mix64(~seed_), number * kRadioDrawCount + which);
}

Instant Link::admitted(Instant now, std::uint64_t number) const {
  Instant begin = now;
  const RestDelay* applies = nullptr;
  for (const RestDelay& rest : options_.rest) {
    if (now - free_at_ >= rest.after) applies = &rest;
  }
  if (applies != nullptr) {
    const double wait = radio_uniform(number, kRest) * seconds(applies->most - applies->least);
    begin += applies->least + from_seconds(wait);
  }
  if (options_.competing) begin += backlog(*options_.competing, now);
  return begin;
}

// The competing flow's backlog, as transmission time.
Duration Link::backlog(const CompetingFlow& flow, Instant now) const {
  constexpr double kPeriodsASpell = 10.0;
  // Phase of the flow at the link's start.
  const double periods =
      seconds(now - start_) / seconds(flow.period) + radio_uniform(0, kFlowPhase);
  const auto spell = static_cast<std::uint64_t>(periods / kPeriodsASpell);
  if (radio_uniform(spell, kFlowSpell) >= flow.share) return Duration::zero();
  const double filled = 0.5 + 0.5 * (periods - std::floor(periods));
  return from_seconds(8.0 * filled * static_cast<double>(flow.queue_bytes) /
                      static_cast<double>(options_.bits_per_second));
}

Instant Link::serialise(Instant now, std::size_t bytes) {
  if (trace_) {
    const Duration since = std::max(now, free_at_) - start_;
    return start_ + trace_->send(since, static_cast<std::uint32_t>(bytes));
  }
  // Rounded up, so that a link never exceeds its rate.
  const std::uint64_t rate = options_.bits_per_second;
  const std::uint64_t bits = std::uint64_t{bytes} * 8;
  const auto wire = std::chrono::nanoseconds((bits * 1'000'000'000 + rate - 1) / rate);
  return std::max(now, free_at_) + wire;
}

bool Link::lose(std::uint64_t number) {
  bool lost = uniform(number, kLoss) < options_.loss;
  if (options_.burst_loss) {
    const GilbertElliott& burst = *options_.burst_loss;
    lost |= uniform(number, kBurstLoss) < (in_burst_ ? burst.loss_in_burst : burst.loss_outside);
    const double step = uniform(number, kBurstStep);
    in_burst_ = in_burst_ ? step >= burst.leave : step < burst.enter;
  }
  return lost;
}

std::size_t Link::waiting(Instant now) {
  while (!departures_.empty() && departures_.front() <= now) departures_.pop_front();
  return departures_.size();
}

Fate Link::send(Instant now, Packet packet, Instant* arrives) {
  const std::uint64_t number = count_++;
  if (down_) return Fate::link_down;
  if (waiting(now) >= options_.queue_packets) return Fate::queue_full;

  free_at_ = serialise(admitted(now, number), packet.size());
  departures_.push_back(free_at_);
  // A lost packet occupies the wire like any other.
  if (lose(number)) return Fate::lost;

  const Duration hold = options_.delay.hold;
  const auto drawn_for =
      hold > Duration(0) ? static_cast<std::uint64_t>((now - start_) / hold) : number;
  Instant out = free_at_ + delay_quantile(options_.delay, uniform(drawn_for, kDelay));
  if (!options_.reorder) out = std::max(out, last_arrives_);
  last_arrives_ = out;
  if (arrives) *arrives = out;
  under_way_.push({out, number, std::move(packet)});
  return Fate::delivered;
}

std::optional<Link::Packet> Link::receive(Instant now) {
  if (under_way_.empty() || under_way_.top().arrives > now) return std::nullopt;
  // top() is const to protect the key; the packet is not part of it.
  Packet packet = std::move(const_cast<UnderWay&>(under_way_.top()).packet);
  under_way_.pop();
  return packet;
}

std::optional<Instant> Link::next_event() const {
  if (under_way_.empty()) return std::nullopt;
  return under_way_.top().arrives;
}

}  // namespace edgedraft::netsim
