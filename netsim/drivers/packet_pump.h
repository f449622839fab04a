#pragma once

#include "netsim/drivers/link_process.h"
#include "netsim/link/duplex_link.h"

namespace edgedraft::netsim {

// Both ends of a link as descriptors; one IP packet per read or write.
struct PacketEnds {
  int server;
  int device;
};

// Carries packets between the ends through the link until the channel stops it or SIGTERM arrives.
// `on_event` is called for every event after the link has applied it.
void pump_packets(DuplexLink& link, const PacketEnds& ends, LinkChannel& channel,
                  const std::function<Result<void>(const LinkEvent&)>& on_event);

}  // namespace edgedraft::netsim
