#pragma once

#include "netsim/drivers/link_process.h"
#include "netsim/link/duplex_link.h"

namespace edgedraft::netsim {

// The two ends of a link as descriptors that give and take one IP packet a call.
struct PacketEnds {
  int server;
  int device;
};

// Carries packets between the ends, through the link, until the channel says stop or SIGTERM comes.
// `on_event` is called for every event after the link has seen it.
void pump_packets(DuplexLink& link, const PacketEnds& ends, LinkChannel& channel,
                  const std::function<Result<void>(const LinkEvent&)>& on_event);

}  // namespace edgedraft::netsim
