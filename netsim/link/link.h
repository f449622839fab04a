#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "netsim/link/delivery_trace.h"
#include "netsim/link/options.h"

namespace edgedraft::netsim {

// Fate of a packet.
enum class Fate {
  delivered,
  lost,        // by random loss, after transmission: it took its time on the wire
  queue_full,  // not accepted
  link_down,   // not accepted
};

// One direction of a link, without clock, socket or thread. The caller passes the time with each
// packet, so a run depends only on options, seed, packets and times and replays exactly. Packet n
// draws its fate from (seed, n) only, its delay from (seed, interval) if delays hold for an
// interval.
class Link {
 public:
  using Packet = std::vector<std::byte>;

  // Requires  options accepted by parse_network_profile
  Link(LinkOptions options, std::uint64_t seed, Instant start);

  // A packet reaches the link at `now`; times never decrease. If given, `arrives` is set to its
  // arrival at the other end if it is delivered.
  Fate send(Instant now, Packet packet, Instant* arrives = nullptr);

  // Next packet that has arrived at or before `now`.
  std::optional<Packet> receive(Instant now);

  // Time of the next receive() result; nullopt if no packet is in flight.
  std::optional<Instant> next_event() const;

  // While down, the link accepts nothing; accepted packets arrive.
  void set_down(bool down) { down_ = down; }

  // Packets waiting or in transmission at `now`.
  std::size_t waiting(Instant now);
  const LinkOptions& options() const { return options_; }

 private:
  struct UnderWay {
    Instant arrives;
    std::uint64_t number;
    Packet packet;
    bool operator>(const UnderWay& other) const {
      return arrives != other.arrives ? arrives > other.arrives : number > other.number;
    }
  };

  Instant serialise(Instant now, std::size_t bytes);
  // Earliest transmission start of a packet that arrives now, given competing traffic and the
  // radio.
  Instant admitted(Instant now, std::uint64_t number) const;
  Duration backlog(const CompetingFlow& flow, Instant now) const;
  bool lose(std::uint64_t number);
  double uniform(std::uint64_t number, unsigned which) const;
  double radio_uniform(std::uint64_t number, unsigned which) const;

  LinkOptions options_;
  std::uint64_t seed_;
  Instant start_;
  std::optional<TracePlayer> trace_;
  std::uint64_t count_ = 0;
  bool down_ = false;
  bool in_burst_ = false;
  Instant free_at_;       // end of the last accepted packet's transmission
  Instant last_arrives_;  // lower bound of the next arrival, which keeps packets in order
  std::deque<Instant> departures_;
  std::priority_queue<UnderWay, std::vector<UnderWay>, std::greater<>> under_way_;
};

}  // namespace edgedraft::netsim
