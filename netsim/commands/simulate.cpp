#include "netsim/commands/simulate.h"

#include <string_view>

#include "netsim/link/duplex_link.h"

namespace edgedraft::netsim {
namespace {

std::string_view name_of(Fate fate) {
  switch (fate) {
    case Fate::delivered:
      return "delivered";
    case Fate::lost:
      return "lost";
    case Fate::queue_full:
      return "queue_full";
    case Fate::link_down:
      return "link_down";
  }
  return "?";
}

}  // namespace

void simulate(const NetworkProfile& profile, const SimulatedLoad& load, std::uint64_t seed,
              std::ostream& out) {
  const Instant start{};
  DuplexLink link(profile.up, profile.down, seed, start);
  const auto events = events_until(profile, load.interval * load.packets);
  auto event = events.begin();

  out << "direction,packet,sent_ns,fate,arrives_ns\n";
  for (std::uint32_t number = 0; number < load.packets; ++number) {
    const Duration at = load.interval * number;
    for (; event != events.end() && event->at <= at; ++event) {
      link.fire(start + event->at, *event);
    }
    for (const Direction direction : {Direction::up, Direction::down}) {
      Instant arrives{};
      const Fate fate = link.send(direction, start + at, Link::Packet(load.packet_bytes), &arrives);
      out << (direction == Direction::up ? "up," : "down,") << number << ',' << at.count() << ','
          << name_of(fate) << ',';
      if (fate == Fate::delivered) out << (arrives - start).count();
      out << '\n';
      while (link.receive(direction, start + at)) {
      }
    }
  }
}

}  // namespace edgedraft::netsim
