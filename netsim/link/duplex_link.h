#pragma once

#include <cstdint>

#include "netsim/link/link.h"
#include "netsim/link/options.h"

namespace edgedraft::netsim {

// Counters of one direction.
struct DirectionStatistics {
  std::uint64_t packets = 0;  // handed to the link
  std::uint64_t bytes = 0;
  std::uint64_t delivered_packets = 0;
  std::uint64_t delivered_bytes = 0;
  std::uint64_t lost = 0;         // random losses
  std::uint64_t queue_drops = 0;  // the queue was full
  std::uint64_t down_drops = 0;   // the link was down
};

struct LinkStatistics {
  DirectionStatistics up;    // device to server
  DirectionStatistics down;  // server to device
};

enum class Direction { up, down };  // device to server, server to device

// Both directions of a link, their events, and their counters. Without a clock, like Link: the
// caller fires events at its own time.
class DuplexLink {
 public:
  DuplexLink(const LinkOptions& up, const LinkOptions& down, std::uint64_t seed, Instant start);

  Fate send(Direction direction, Instant now, Link::Packet packet, Instant* arrives = nullptr);
  std::optional<Link::Packet> receive(Direction direction, Instant now);

  // Down and up, as Link::set_down; a new address has no effect on the link. A `down` with a
  // duration ends at the first call after that time.
  void fire(Instant now, const LinkEvent& event);

  // Time of the next receive() result or of the link coming up.
  std::optional<Instant> next_event() const;

  const LinkStatistics& statistics() const { return statistics_; }
  Link& link(Direction direction) { return direction == Direction::up ? up_ : down_; }

 private:
  void keep_time(Instant now);
  void set_down(bool down);
  DirectionStatistics& statistics_of(Direction direction) {
    return direction == Direction::up ? statistics_.up : statistics_.down;
  }

  Link up_;
  Link down_;
  LinkStatistics statistics_;
  std::optional<Instant> up_again_;
};

}  // namespace edgedraft::netsim
