#include "netsim/drivers/packet_pump.h"

#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <array>

namespace edgedraft::netsim {
namespace {

constexpr std::size_t kPacketBytesMax = 65536;
// Bounds reads per turn, so that no end and no channel starves.
constexpr int kReadsAtOnce = 64;

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

}  // namespace

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

}  // namespace edgedraft::netsim
