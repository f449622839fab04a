#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "netsim/drivers/process_driver.h"
#include "netsim/link/duplex_link.h"

namespace edgedraft::netsim {
namespace {

constexpr std::size_t kPacketBytesMax = 65536;
// Bounds reads per turn, so that no end and no channel starves.
constexpr int kReadsAtOnce = 64;

// Both ends of a link as descriptors; one IP packet per read or write.
struct PacketEnds {
  int server;
  int device;
};

void take_packets(DuplexLink& link, Direction direction, int from) {
  static std::array<std::byte, kPacketBytesMax> buffer;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t size = read(from, buffer.data(), buffer.size());
    if (size <= 0) return;
    // Drops packets other than IPv4: the kernel itself sends them.
    if ((std::to_integer<unsigned>(buffer[0]) >> 4) != 4) continue;
    link.send(direction, Clock::now(), Link::Packet(buffer.begin(), buffer.begin() + size));
  }
}

void give_packets(DuplexLink& link, Direction direction, int to) {
  while (const auto packet = link.receive(direction, Clock::now())) {
    // A device that accepts no packet is down: the packet is lost.
    (void)!write(to, packet->data(), packet->size());
  }
}

timespec until(Instant then) {
  const Duration left = std::max(then - Clock::now(), Duration(0));
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {.tv_sec = whole.count(), .tv_nsec = (left - whole).count()};
}

// Carries packets between the ends through the link until the channel stops it or SIGTERM arrives.
// `on_event` is called for every event after the link has applied it.
void pump_packets(DuplexLink& link, const PacketEnds& ends, LinkChannel& channel,
                  const std::function<Result<void>(const LinkEvent&)>& on_event) {
  const auto answer = [&](const LinkRequest& request) -> Result<LinkReply> {
    if (request.kind == LinkRequest::Kind::fire) {
      link.fire(Clock::now(), request.event);
      if (auto done = on_event(request.event); !done) return done.error();
    }
    return LinkReply{.statistics = link.statistics()};
  };
  while (!link_process_must_end()) {
    give_packets(link, Direction::up, ends.server);
    give_packets(link, Direction::down, ends.device);

    std::array<pollfd, 3> waited{pollfd{.fd = channel.descriptor(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = ends.device, .events = POLLIN, .revents = 0},
                                 pollfd{.fd = ends.server, .events = POLLIN, .revents = 0}};
    const auto next = link.next_event();
    const timespec timeout = next ? until(*next) : timespec{};
    if (ppoll(waited.data(), waited.size(), next ? &timeout : nullptr, nullptr) <= 0) continue;

    if (waited[1].revents) take_packets(link, Direction::up, ends.device);
    if (waited[2].revents) take_packets(link, Direction::down, ends.server);
    if (waited[0].revents && !channel.serve(answer)) return;
  }
}

struct TunLink {
  LinkNamespaces namespaces;
  PacketEnds ends;
};

Result<TunLink> make_ends(const std::string& congestion_control) {
  const auto namespaces = make_namespaces();
  if (!namespaces) return namespaces.error();
  const auto make_end = [&](int descriptor, const std::string& address) -> Result<int> {
    if (auto entered = enter_namespace(descriptor); !entered) return entered.error();
    const auto tun = make_tun_device();
    if (!tun) return tun.error();
    if (auto set = set_address(kInterface, address); !set) return set.error();
    if (auto up = set_up(kInterface); !up) return up.error();
    if (auto set = set_congestion_control(address, congestion_control); !set) return set.error();
    return *tun;
  };
  const auto server = make_end(namespaces->server_descriptor, kServerAddress);
  if (!server) return server.error();
  const auto device = make_end(namespaces->device_descriptor, device_address(0));
  if (!device) return device.error();
  return TunLink{.namespaces = *namespaces, .ends = {.server = *server, .device = *device}};
}

// In the link process, which make_ends() left in the device's namespace.
Result<void> carry(const NetworkProfile& profile, std::uint64_t seed, LinkChannel& channel) {
  const auto made = make_ends(profile.congestion_control);
  if (!made) return made.error();
  channel.reply(LinkReply{.namespaces = made->namespaces});

  DuplexLink link(profile.up, profile.down, seed, Clock::now());
  unsigned addresses = 1;
  pump_packets(link, made->ends, channel, [&](const LinkEvent& event) -> Result<void> {
    if (event.kind != LinkEvent::Kind::new_address) return boost::system::in_place_value;
    const std::string address = device_address(addresses++);
    if (auto set = set_address(kInterface, address); !set) return set;
    return set_congestion_control(address, profile.congestion_control);
  });
  return boost::system::in_place_value;
}

}  // namespace

Result<std::unique_ptr<LinkDriver>> make_tun_link(const NetworkProfile& profile,
                                                  std::uint64_t seed) {
  return ProcessDriver::start("tun", false,
                              [&](LinkChannel& channel) { return carry(profile, seed, channel); });
}

}  // namespace edgedraft::netsim
