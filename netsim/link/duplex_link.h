#pragma once

#include "netsim/link/events.h"
#include "netsim/link/link.h"
#include "netsim/link/statistics.h"

namespace edgedraft::netsim {

enum class Direction { up, down };  // device to server, server to device

// Both directions of a link, what happens to them, and what they have done. As pure as
// Link: the events are fired by the caller, at the caller's time.
class DuplexLink {
 public:
  DuplexLink(const LinkOptions& up, const LinkOptions& down, std::uint64_t seed, Instant start);

  Fate send(Direction direction, Instant now, Link::Packet packet, Instant* arrives = nullptr);
  std::optional<Link::Packet> receive(Direction direction, Instant now);

  // Down and up, as Link::set_down; a new address is nothing to the link itself. A `down` with a
  // duration ends by itself, at the first call after that time.
  void fire(Instant now, const LinkEvent& event);

  // The next time at which receive() has something, or the link comes up again.
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
