#include "netsim/drivers/drivers.h"
#include "netsim/drivers/process_driver.h"
#include "netsim/drivers/proxy_relay.h"
#include "netsim/link/delay_distribution.h"

namespace edgedraft::netsim {

Result<std::unique_ptr<LinkDriver>> make_proxy_link(const NetworkProfile& profile,
                                                    std::uint64_t seed) {
  auto process = LinkProcess::start([&](LinkChannel& channel) -> Result<void> {
    DuplexLink link(profile.up, profile.down, seed, Clock::now());
    ProxyRelay relay(link, mean_delay(profile.up) + mean_delay(profile.down));
    channel.reply(LinkReply{});
    relay.run(channel);
    return boost::system::in_place_value;
  });
  if (!process) return process.error();
  return std::unique_ptr<LinkDriver>(
      std::make_unique<ProcessDriver>("proxy", std::move(*process), true));
}

}  // namespace edgedraft::netsim
