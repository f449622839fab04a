#pragma once

#include "netsim/drivers/link_driver.h"

namespace edgedraft::netsim {

// Two network namespaces with a TUN device each and the link model between them.
Result<std::unique_ptr<LinkDriver>> make_tun_link(const NetworkProfile& profile,
                                                  std::uint64_t seed);

// Two network namespaces joined by a veth pair, with the kernel's netem at both ends. The kernel
// draws its own random values: no seed.
Result<std::unique_ptr<LinkDriver>> make_tc_link(const NetworkProfile& profile);

// A relay of TCP connections on loopback. The link model schedules deliveries; a lost packet
// arrives a round trip later, as if TCP had retransmitted it.
Result<std::unique_ptr<LinkDriver>> make_proxy_link(const NetworkProfile& profile,
                                                    std::uint64_t seed);

}  // namespace edgedraft::netsim
