#include "netsim/drivers/packet_pump.h"
#include "netsim/drivers/process_driver.h"

namespace edgedraft::netsim {
namespace {

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
