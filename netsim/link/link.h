#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "netsim/link/delivery_trace.h"
#include "netsim/link/options.h"

namespace edgedraft::netsim {

// What becomes of a packet.
enum class Fate {
  delivered,
  lost,        // by the laws of loss, after it was sent: it took its time on the wire
  queue_full,  // never accepted
  link_down,   // never accepted
};

// One direction of a link. It owns no clock, socket or thread: packets go in with the time, and a
// run is a function of options, seed, packets and times, so it replays exactly. Packet n draws its
// fate from (seed, n) alone, its delay from (seed, interval) where delays hold for an interval.
class Link {
 public:
  using Packet = std::vector<std::byte>;

  // Requires  options as parse_network_profile lets them through
  Link(LinkOptions options, std::uint64_t seed, Instant start);

  // A packet reaches the link at `now`; times never fall. `arrives`, where given, is set to when it
  // will be out at the other end if it is delivered.
  Fate send(Instant now, Packet packet, Instant* arrives = nullptr);

  // The next packet that is out at or before `now`.
  std::optional<Packet> receive(Instant now);

  // When receive() next has something; nullopt while nothing is under way.
  std::optional<Instant> next_event() const;

  // While it is down the link accepts nothing; what it has accepted arrives.
  void set_down(bool down) { down_ = down; }

  // Packets that wait at `now` or are being sent.
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
  // When a packet that comes now may begin to be sent, as far as others and the radio allow.
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
  Instant free_at_;       // when the last accepted packet has left
  Instant last_arrives_;  // in order: nothing arrives before it
  std::deque<Instant> departures_;
  std::priority_queue<UnderWay, std::vector<UnderWay>, std::greater<>> under_way_;
};

}  // namespace edgedraft::netsim
