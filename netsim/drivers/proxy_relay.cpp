#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <queue>
#include <vector>

#include "netsim/drivers/process_driver.h"
#include "netsim/link/duplex_link.h"
#include "netsim/link/options.h"

namespace edgedraft::netsim {
namespace {

constexpr std::size_t kHeaderBytes = 52;     // IPv4 and TCP with timestamps
constexpr std::size_t kSegmentBytes = 1448;  // payload of a 1,500-byte packet
constexpr std::size_t kUnwrittenBytesMax = 1u << 20;
constexpr std::uint32_t kMissingMax = 64;
// TCP on Linux: first timeout of a SYN, minimum and maximum retransmission timeouts.
constexpr Duration kOpenTimeout = std::chrono::seconds(1);
constexpr Duration kResendLeast = std::chrono::milliseconds(200);
constexpr Duration kResendMost = std::chrono::seconds(60);

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int tcp_socket() {
  return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

void send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void close_socket(int& socket) {
  if (socket >= 0) close(socket);
  socket = -1;
}

void reset_socket(int& socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  if (socket >= 0) setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close_socket(socket);
}

bool must_wait() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

Direction other(Direction direction) {
  return direction == Direction::up ? Direction::down : Direction::up;
}

// Relays TCP connections on loopback as segments through a link. Opening a connection takes a round
// trip, like TCP's handshake. Bytes arrive in order, so a lost segment delays later ones until its
// retransmission, one round trip later. TCP's growing window is not imitated, so a long transfer
// starts at the full rate.
class ProxyRelay {
 public:
  // `round_trip`: time until a lost segment is sent again.
  ProxyRelay(DuplexLink& link, Duration round_trip) : link_(link), round_trip_(round_trip) {}
  ~ProxyRelay();
  ProxyRelay(const ProxyRelay&) = delete;
  ProxyRelay& operator=(const ProxyRelay&) = delete;

  // Runs until the channel stops it or SIGTERM arrives.
  void run(LinkChannel& channel);

 private:
  enum class Segment : std::uint32_t { open, opened, data, end, reset };
  struct Header {
    std::uint32_t connection;
    std::uint32_t number;  // counts a connection's segments per direction
    Segment kind;
  };
  // One direction of a connection.
  struct Stream {
    std::uint32_t next_number = 0;                // to send
    std::uint32_t expected = 0;                   // expected to arrive
    std::map<std::uint32_t, Link::Packet> early;  // arrived out of order
    std::vector<std::byte> unwritten;             // arrived, for the receiving socket
    std::uint32_t missing = 0;                    // lost, not sent again yet
    bool read_to_end = false;
    bool end_arrived = false;
    bool end_written = false;
  };
  struct Connection {
    std::uint16_t server_port = 0;
    int client = -1;
    int server = -1;
    bool connecting = false;  // server's connect() is in progress
    bool connected = false;
    bool opened = false;  // the client's handshake is complete
    bool dead = false;    // from an address that the device no longer has
    Stream up;
    Stream down;
  };
  struct Missing {
    Instant due;
    Direction direction;
    Link::Packet packet;
    unsigned attempt;
    bool operator>(const Missing& other) const { return due > other.due; }
  };

  Result<std::uint16_t> listen(std::uint16_t server_port);
  Result<LinkReply> answer(const LinkRequest& request);
  void accept_from(int listener, std::uint16_t server_port);
  void send(std::uint32_t id, Direction direction, Segment kind, const std::byte* bytes,
            std::size_t size);
  void transmit(Direction direction, Link::Packet packet, unsigned attempt);
  void send_missing();
  void deliver(Direction direction);
  void arrive(std::uint32_t id, Connection& connection, Direction direction,
              const Link::Packet& packet);
  void open_server(std::uint32_t id, Connection& connection);
  void finish_open(std::uint32_t id, Connection& connection);
  bool may_read(Direction direction, const Connection& connection);
  void read_some(std::uint32_t id, Connection& connection, Direction direction);
  void write_some(std::uint32_t id, Connection& connection, Direction direction);
  void abort(std::uint32_t id, Connection& connection, Direction towards);
  void close_both(Connection& connection);
  void forget_finished();
  Duration until_next(bool reading_is_held_back) const;

  static Stream& stream(Connection& connection, Direction direction) {
    return direction == Direction::up ? connection.up : connection.down;
  }
  static int source(const Connection& c, Direction d) {
    return d == Direction::up ? c.client : c.server;
  }
  static int sink(const Connection& c, Direction d) {
    return d == Direction::up ? c.server : c.client;
  }

  DuplexLink& link_;
  Duration round_trip_;
  std::map<std::uint16_t, std::pair<int, std::uint16_t>> listeners_;  // by the server's port
  std::map<std::uint32_t, Connection> connections_;
  std::uint32_t next_id_ = 0;
  std::priority_queue<Missing, std::vector<Missing>, std::greater<>> missing_;
};

ProxyRelay::~ProxyRelay() {
  for (auto& [port, listener] : listeners_) close(listener.first);
  for (auto& [id, connection] : connections_) close_both(connection);
}

Result<std::uint16_t> ProxyRelay::listen(std::uint16_t server_port) {
  if (const auto known = listeners_.find(server_port); known != listeners_.end()) {
    return known->second.second;
  }
  const int listener = tcp_socket();
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, generic, size) != 0 || ::listen(listener, 128) != 0 ||
      getsockname(listener, generic, &size) != 0) {
    const Error error{Errc::io, std::string("proxy: cannot listen: ") + std::strerror(errno)};
    if (listener >= 0) close(listener);
    return error;
  }
  const std::uint16_t port = ntohs(address.sin_port);
  listeners_[server_port] = {listener, port};
  return port;
}

Result<LinkReply> ProxyRelay::answer(const LinkRequest& request) {
  LinkReply reply;
  if (request.kind == LinkRequest::Kind::statistics) reply.statistics = link_.statistics();
  if (request.kind == LinkRequest::Kind::fire) {
    link_.fire(Clock::now(), request.event);
    if (request.event.kind == LinkEvent::Kind::new_address) {
      for (auto& [id, connection] : connections_) connection.dead = true;
    }
  }
  if (request.kind == LinkRequest::Kind::listen) {
    const auto port = listen(request.port);
    if (!port) return port.error();
    reply.port = *port;
  }
  return reply;
}

void ProxyRelay::accept_from(int listener, std::uint16_t server_port) {
  const int client = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (client < 0) return;
  send_at_once(client);
  const std::uint32_t id = next_id_++;
  Connection& connection = connections_[id];
  connection.server_port = server_port;
  connection.client = client;
  send(id, Direction::up, Segment::open, nullptr, 0);
}

void ProxyRelay::send(std::uint32_t id, Direction direction, Segment kind, const std::byte* bytes,
                      std::size_t size) {
  const Header header{.connection = id,
                      .number = stream(connections_.at(id), direction).next_number++,
                      .kind = kind};
  Link::Packet packet(kHeaderBytes + size);
  std::memcpy(packet.data(), &header, sizeof header);
  if (size > 0) std::memcpy(packet.data() + kHeaderBytes, bytes, size);
  transmit(direction, std::move(packet), 0);
}

void ProxyRelay::transmit(Direction direction, Link::Packet packet, unsigned attempt) {
  Header header;
  std::memcpy(&header, packet.data(), sizeof header);
  const Instant now = Clock::now();
  const Fate fate = link_.send(direction, now, packet);
  if (fate == Fate::delivered) return;

  const bool opening = header.kind == Segment::open || header.kind == Segment::opened;
  Duration wait = round_trip_;
  if (fate != Fate::lost || opening) {
    wait = opening ? kOpenTimeout : std::max(round_trip_, kResendLeast);
    wait = std::min(wait * (1 << std::min(attempt, 8u)), kResendMost);
  }
  if (const auto found = connections_.find(header.connection); found != connections_.end()) {
    ++stream(found->second, direction).missing;
  }
  missing_.push({now + wait, direction, std::move(packet), attempt + 1});
}

void ProxyRelay::send_missing() {
  while (!missing_.empty() && missing_.top().due <= Clock::now()) {
    Missing again = missing_.top();
    missing_.pop();
    Header header;
    std::memcpy(&header, again.packet.data(), sizeof header);
    const auto found = connections_.find(header.connection);
    if (found == connections_.end() || found->second.dead) continue;
    --stream(found->second, again.direction).missing;
    transmit(again.direction, std::move(again.packet), again.attempt);
  }
}

void ProxyRelay::deliver(Direction direction) {
  while (auto packet = link_.receive(direction, Clock::now())) {
    Header header;
    std::memcpy(&header, packet->data(), sizeof header);
    const auto found = connections_.find(header.connection);
    if (found == connections_.end() || found->second.dead) continue;
    Stream& in = stream(found->second, direction);
    in.early[header.number] = std::move(*packet);
    for (auto next = in.early.find(in.expected); next != in.early.end();
         next = in.early.find(in.expected)) {
      const Link::Packet turn = std::move(next->second);
      in.early.erase(next);
      ++in.expected;
      arrive(header.connection, found->second, direction, turn);
    }
  }
}

void ProxyRelay::arrive(std::uint32_t id, Connection& connection, Direction direction,
                        const Link::Packet& packet) {
  Header header;
  std::memcpy(&header, packet.data(), sizeof header);
  Stream& in = stream(connection, direction);
  switch (header.kind) {
    case Segment::open:
      open_server(id, connection);
      return;
    case Segment::opened:
      connection.opened = true;
      return;
    case Segment::data:
      in.unwritten.insert(in.unwritten.end(), packet.begin() + kHeaderBytes, packet.end());
      break;
    case Segment::end:
      in.end_arrived = true;
      break;
    case Segment::reset:
      reset_socket(connection.client);
      reset_socket(connection.server);
      return;
  }
  write_some(id, connection, direction);
}

void ProxyRelay::open_server(std::uint32_t id, Connection& connection) {
  connection.server = tcp_socket();
  const sockaddr_in address = loopback(connection.server_port);
  if (connection.server >= 0) {
    send_at_once(connection.server);
    if (connect(connection.server, reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0 ||
        errno == EINPROGRESS) {
      connection.connecting = true;
      return;
    }
  }
  abort(id, connection, Direction::down);
}

void ProxyRelay::finish_open(std::uint32_t id, Connection& connection) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.server, SOL_SOCKET, SO_ERROR, &error, &size);
  connection.connecting = false;
  if (error != 0) {
    abort(id, connection, Direction::down);
    return;
  }
  connection.connected = true;
  send(id, Direction::down, Segment::opened, nullptr, 0);
}

// This side's socket is gone; the other side learns it after the link's delay.
void ProxyRelay::abort(std::uint32_t id, Connection& connection, Direction towards) {
  reset_socket(towards == Direction::up ? connection.client : connection.server);
  send(id, towards, Segment::reset, nullptr, 0);
}

bool ProxyRelay::may_read(Direction direction, const Connection& connection) {
  const Stream& out = direction == Direction::up ? connection.up : connection.down;
  const bool established = direction == Direction::up ? connection.opened : connection.connected;
  return established && !connection.dead && source(connection, direction) >= 0 &&
         !out.read_to_end && out.missing < kMissingMax && out.unwritten.size() < kUnwrittenBytesMax;
}

void ProxyRelay::read_some(std::uint32_t id, Connection& connection, Direction direction) {
  std::array<std::byte, kSegmentBytes> buffer;
  Link& link = link_.link(direction);
  while (may_read(direction, connection) &&
         link.waiting(Clock::now()) < link.options().queue_packets) {
    const ssize_t size = read(source(connection, direction), buffer.data(), buffer.size());
    if (size < 0 && must_wait()) return;
    if (size < 0) {
      abort(id, connection, direction);
      return;
    }
    if (size == 0) {
      stream(connection, direction).read_to_end = true;
      send(id, direction, Segment::end, nullptr, 0);
      return;
    }
    send(id, direction, Segment::data, buffer.data(), static_cast<std::size_t>(size));
  }
}

void ProxyRelay::write_some(std::uint32_t id, Connection& connection, Direction direction) {
  Stream& in = stream(connection, direction);
  const int to = sink(connection, direction);
  if (to < 0) return;
  std::size_t written = 0;
  while (written < in.unwritten.size()) {
    const ssize_t size =
        ::send(to, in.unwritten.data() + written, in.unwritten.size() - written, MSG_NOSIGNAL);
    if (size < 0 && must_wait()) break;
    if (size < 0) {
      abort(id, connection, other(direction));
      return;
    }
    written += static_cast<std::size_t>(size);
  }
  in.unwritten.erase(in.unwritten.begin(),
                     in.unwritten.begin() + static_cast<std::ptrdiff_t>(written));
  if (in.unwritten.empty() && in.end_arrived && !in.end_written) {
    in.end_written = true;
    shutdown(to, SHUT_WR);
  }
}

void ProxyRelay::close_both(Connection& connection) {
  close_socket(connection.client);
  close_socket(connection.server);
}

void ProxyRelay::forget_finished() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection& c = it->second;
    const bool over = (c.up.end_written && c.down.end_written) || (c.client < 0 && c.server < 0);
    if (over) {
      close_both(c);
      it = connections_.erase(it);
    } else {
      ++it;
    }
  }
}

Duration ProxyRelay::until_next(bool reading_is_held_back) const {
  // No event signals free queue space.
  Duration wait = reading_is_held_back ? std::chrono::milliseconds(1) : std::chrono::hours(1);
  const Instant now = Clock::now();
  if (const auto next = link_.next_event()) wait = std::min(wait, *next - now);
  if (!missing_.empty()) wait = std::min(wait, missing_.top().due - now);
  return std::max(wait, Duration(0));
}

void ProxyRelay::run(LinkChannel& channel) {
  struct Watched {
    std::uint32_t connection;
    bool is_client;
  };
  while (!link_process_must_end()) {
    send_missing();
    deliver(Direction::up);
    deliver(Direction::down);
    forget_finished();

    std::vector<pollfd> polled{{.fd = channel.descriptor(), .events = POLLIN, .revents = 0}};
    std::vector<std::uint16_t> ports;
    for (const auto& [port, listener] : listeners_) {
      polled.push_back({.fd = listener.first, .events = POLLIN, .revents = 0});
      ports.push_back(port);
    }
    std::vector<Watched> watched;
    bool held_back = false;
    for (const auto& [id, connection] : connections_) {
      for (const Direction reads : {Direction::up, Direction::down}) {
        const int socket = source(connection, reads);
        if (socket < 0) continue;
        if (connection.dead) {
          // Neither end receives from the other any more; only its hang-up is of interest.
          polled.push_back({.fd = socket, .events = POLLRDHUP, .revents = 0});
          watched.push_back({id, reads == Direction::up});
          continue;
        }
        const Stream& written = reads == Direction::up ? connection.down : connection.up;
        const bool connecting = reads == Direction::down && connection.connecting;
        short events = written.unwritten.empty() && !connecting ? 0 : POLLOUT;
        if (may_read(reads, connection)) {
          Link& link = link_.link(reads);
          const bool room = link.waiting(Clock::now()) < link.options().queue_packets;
          held_back |= !room;
          if (room) events |= POLLIN;
        }
        // Ignored, since an unread hang-up would keep poll() awake.
        if (events == 0) continue;
        polled.push_back({.fd = socket, .events = events, .revents = 0});
        watched.push_back({id, reads == Direction::up});
      }
    }
    const Duration wait = until_next(held_back);
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(wait);
    const timespec timeout{.tv_sec = whole.count(), .tv_nsec = (wait - whole).count()};
    if (ppoll(polled.data(), polled.size(), &timeout, nullptr) <= 0) continue;

    for (std::size_t i = 0; i < watched.size(); ++i) {
      const pollfd& ready = polled[1 + ports.size() + i];
      if (ready.revents == 0) continue;
      const auto [id, is_client] = watched[i];
      Connection& connection = connections_.at(id);
      if (connection.dead) {
        close_socket(is_client ? connection.client : connection.server);
        continue;
      }
      const Direction reads = is_client ? Direction::up : Direction::down;
      if (!is_client && connection.connecting) {
        finish_open(id, connection);
        continue;
      }
      if (ready.revents & POLLOUT) write_some(id, connection, other(reads));
      if (ready.revents & (POLLIN | POLLHUP | POLLERR)) read_some(id, connection, reads);
    }
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (polled[1 + i].revents) accept_from(polled[1 + i].fd, ports[i]);
    }
    if (polled[0].revents) {
      if (!channel.serve([this](const LinkRequest& r) { return answer(r); })) return;
    }
  }
}

}  // namespace

Result<std::unique_ptr<LinkDriver>> make_proxy_link(const NetworkProfile& profile,
                                                    std::uint64_t seed) {
  return ProcessDriver::start("proxy", true, [&](LinkChannel& channel) -> Result<void> {
    DuplexLink link(profile.up, profile.down, seed, Clock::now());
    ProxyRelay relay(link, mean_delay(profile.up) + mean_delay(profile.down));
    channel.reply(LinkReply{});
    relay.run(channel);
    return boost::system::in_place_value;
  });
}

}  // namespace edgedraft::netsim
