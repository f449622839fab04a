#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "shared/base/clock.h"

namespace edgedraft::netsim {

// How long a packet travels after it has been sent out at the link's rate.
struct DelayLaw {
  enum class Kind { constant, normal, pareto, table };

  Kind kind = Kind::constant;
  // Added to every packet's delay, whatever the law draws: the wire's part.
  Duration path{0};
  // constant: the delay; normal: its mean before clipping at zero; pareto: the least delay.
  Duration centre{0};
  Duration deviation{0};  // normal
  double shape = 0;       // pareto, > 1
  // How long a drawn delay holds for all packets; zero: every packet draws for itself. A radio's
  // delay changes slowly: with a draw a packet, kept in order, a burst would always meet the worst.
  Duration hold{0};
  // table: (cumulative probability, delay), both rising, straight lines between; from 0 to 1.
  std::vector<std::pair<double, Duration>> points;
};

// Loss in bursts: a chain of two states, one step a packet.
struct GilbertElliott {
  double enter = 0;  // probability a packet that the good state turns bad after it
  double leave = 1;  // and back, > 0: a stay in the bad state lasts 1 / leave packets on average
  double loss_in_burst = 1;
  double loss_outside = 0;
};

// A radio at rest: a side that has sent nothing for a while has to ask for a grant, or wait until
// the other side listens again, before a packet leaves. Those behind it wait for it.
struct RestLaw {
  Duration after{0};  // without a packet
  Duration least{0};  // the wait, drawn evenly
  Duration most{0};
};

// Somebody else's download or upload through the same queue: TCP fills it, loses a packet, halves
// its window and fills it again. Ours wait behind what is there.
struct CompetingFlow {
  std::uint64_t queue_bytes = 0;  // when it is full; half as many after a loss
  Duration period{0};             // from loss to loss
  double share = 1;               // of the time that the flow is there, in spells of ten periods
};

// Opportunities to send 1,500 bytes each, as mahimahi's traces list them.
struct DeliveryTrace {
  std::vector<std::uint32_t> at_ms;  // never falling; the last is the period after which it repeats
};

inline constexpr std::uint32_t kTraceOpportunityBytes = 1500;

// One direction of a link.
struct LinkOptions {
  std::uint64_t bits_per_second = 0;  // > 0 unless there is a trace, which takes its place
  std::optional<DeliveryTrace> trace;
  DelayLaw delay;
  // Whether a packet with a shorter delay overtakes: netem's way, but no radio link's.
  bool reorder = false;
  // By how long the link has been at rest: the last one that it has been for.
  std::vector<RestLaw> rest;
  std::optional<CompetingFlow> competing;
  double loss = 0;  // independent, in [0, 1]
  std::optional<GilbertElliott> burst_loss;
  // Packets that wait or are being sent; one more is dropped.
  std::size_t queue_packets = 1000;
};

}  // namespace edgedraft::netsim
