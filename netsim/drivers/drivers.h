#pragma once

#include "netsim/drivers/link_driver.h"

namespace edgedraft::netsim {

// Two network namespaces with a TUN device each and the link model between them.
Result<std::unique_ptr<LinkDriver>> make_tun_link(const NetworkProfile& profile,
                                                  std::uint64_t seed);

// Two network namespaces joined by a veth pair, with the kernel's netem on both its ends. The
// kernel draws its own random numbers: no seed.
Result<std::unique_ptr<LinkDriver>> make_tc_link(const NetworkProfile& profile);

// A relay of TCP connections on loopback. The link model decides when what it relays arrives; a
// lost packet comes a round trip later, as if TCP had sent it again.
Result<std::unique_ptr<LinkDriver>> make_proxy_link(const NetworkProfile& profile,
                                                    std::uint64_t seed);

}  // namespace edgedraft::netsim
