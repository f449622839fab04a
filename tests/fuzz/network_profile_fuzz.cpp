#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "netsim/link/duplex_link.h"
#include "netsim/profile.h"

// Any text parses to a profile or an error. A valid profile makes a link on which no packet arrives
// before it is sent, and a script that ends.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  using namespace edgedraft::netsim;
  using namespace std::chrono_literals;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = parse_network_profile(text, "/nowhere/fuzz.toml");
  if (!profile) return 0;
  if (events_until(*profile, 1s).size() > 11 * profile->events.size()) std::abort();
  const Instant start{};
  DuplexLink link(profile->up, profile->down, 1, start);
  for (int i = 0; i < 20; ++i) {
    const Instant now = start + i * 7ms;
    for (const Direction direction : {Direction::up, Direction::down}) {
      Instant arrives{};
      if (link.send(direction, now, Link::Packet(100), &arrives) == Fate::delivered &&
          arrives < now) {
        std::abort();
      }
      while (link.receive(direction, now)) {
      }
    }
  }
  return 0;
}
