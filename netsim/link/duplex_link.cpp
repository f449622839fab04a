#include "netsim/link/duplex_link.h"

#include "shared/base/random.h"

namespace edgedraft::netsim {

DuplexLink::DuplexLink(const LinkOptions& up, const LinkOptions& down, std::uint64_t seed,
                       Instant start)
    : up_(up, mix64(2 * seed), start), down_(down, mix64(2 * seed + 1), start) {}

void DuplexLink::set_down(bool down) {
  up_.set_down(down);
  down_.set_down(down);
}

void DuplexLink::keep_time(Instant now) {
  if (!up_again_ || *up_again_ > now) return;
  up_again_.reset();
  set_down(false);
}

Fate DuplexLink::send(Direction direction, Instant now, Link::Packet packet, Instant* arrives) {
  keep_time(now);
  DirectionStatistics& statistics = statistics_of(direction);
  ++statistics.packets;
  statistics.bytes += packet.size();
  const Fate fate = link(direction).send(now, std::move(packet), arrives);
  statistics.lost += fate == Fate::lost;
  statistics.queue_drops += fate == Fate::queue_full;
  statistics.down_drops += fate == Fate::link_down;
  return fate;
}

std::optional<Link::Packet> DuplexLink::receive(Direction direction, Instant now) {
  keep_time(now);
  auto packet = link(direction).receive(now);
  if (packet) {
    DirectionStatistics& statistics = statistics_of(direction);
    ++statistics.delivered_packets;
    statistics.delivered_bytes += packet->size();
  }
  return packet;
}

void DuplexLink::fire(Instant now, const LinkEvent& event) {
  keep_time(now);
  if (event.kind == LinkEvent::Kind::new_address) return;
  const bool down = event.kind == LinkEvent::Kind::down;
  set_down(down);
  up_again_.reset();
  if (down && event.duration > Duration::zero()) up_again_ = now + event.duration;
}

std::optional<Instant> DuplexLink::next_event() const {
  std::optional<Instant> first = up_again_;
  for (const auto& candidate : {up_.next_event(), down_.next_event()}) {
    if (candidate && (!first || *candidate < *first)) first = candidate;
  }
  return first;
}

}  // namespace edgedraft::netsim
