#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "shared/base/clock.h"

namespace edgedraft::netsim {

// Delay of a packet after its transmission at the link's rate.
struct DelayDistribution {
  enum class Kind { constant, normal, pareto, table };

  Kind kind = Kind::constant;
  // Constant part added to every drawn delay.
  Duration path{0};
  // constant: the delay; normal: mean before clipping at zero; pareto: minimum.
  Duration centre{0};
  Duration deviation{0};  // normal
  double shape = 0;       // pareto, > 1
  // Time for which a drawn delay holds for all packets; zero: one draw per packet. A radio's delay
  // changes slowly: with a draw per packet, kept in order, a burst would always see its maximum.
  Duration hold{0};
  // table: (cumulative probability, delay), both increasing, linear in between; from 0 to 1.
  std::vector<std::pair<double, Duration>> points;
};

// Upper bound on any drawn delay; heavier tails are clipped.
inline constexpr Duration kDelayMax = std::chrono::seconds(60);

// Inverse distribution function of the delay, clipped to [0, kDelayMax] before the path is added. A
// uniform p gives the distribution itself.
//
// Requires  p in [0, 1)
Duration delay_quantile(const DelayDistribution& distribution, double p);

// Mean over `steps` equally likely quantiles, the value a measurement should find.
Duration mean_delay(const DelayDistribution& distribution, int steps = 4096);

// Burst loss: a two-state chain, one step per packet.
struct GilbertElliott {
  double enter = 0;  // probability per packet of good to bad
  double leave = 1;  // and back, > 0: a bad state lasts 1 / leave packets on average
  double loss_in_burst = 1;
  double loss_outside = 0;
};

// An idle radio: after an idle time, the first packet waits for a grant or for the other side's
// next listening interval. Later packets wait for it.
struct RestDelay {
  Duration after{0};  // without a packet
  Duration least{0};  // the wait, uniform
  Duration most{0};
};

// Competing traffic in the same queue: TCP fills it, loses a packet, halves its window and fills it
// again. Our packets queue after its backlog.
struct CompetingFlow {
  std::uint64_t queue_bytes = 0;  // at its maximum; half of it after a loss
  Duration period{0};             // from loss to loss
  double share = 1;               // fraction of time with the flow active, in spells of ten periods
};

// Delivery opportunities of 1,500 bytes each, as in mahimahi's traces.
struct DeliveryTrace {
  std::vector<std::uint32_t> at_ms;  // non-decreasing; the last is the period after which it
                                     // repeats
};

inline constexpr std::uint32_t kTraceOpportunityBytes = 1500;

// One direction of a link.
struct LinkOptions {
  std::uint64_t bits_per_second = 0;  // > 0 unless a trace replaces it
  std::optional<DeliveryTrace> trace;
  DelayDistribution delay;
  // True if packets with shorter delays overtake, as in netem but not on radio links.
  bool reorder = false;
  // By idle time: the last entry whose idle time has passed applies.
  std::vector<RestDelay> rest;
  std::optional<CompetingFlow> competing;
  double loss = 0;  // independent, in [0, 1]
  std::optional<GilbertElliott> burst_loss;
  // Packets waiting or in transmission; further ones are dropped.
  std::size_t queue_packets = 1000;
};

// Mean time of a small packet after a second's rest, excluding transmission.
Duration mean_delay(const LinkOptions& options, int steps = 4096);

// An event of the whole link, both directions at once.
struct LinkEvent {
  enum class Kind {
    down,         // later packets are lost; those in flight arrive
    up,           //
    new_address,  // the device's address changes: its old connections fail silently
  };

  Kind kind = Kind::down;
  Duration at{0};        // since the start of the run
  Duration duration{0};  // down: duration; zero: until an `up`
};

}  // namespace edgedraft::netsim
