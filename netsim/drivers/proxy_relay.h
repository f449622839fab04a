#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "netsim/drivers/link_process.h"
#include "netsim/link/duplex_link.h"

namespace edgedraft::netsim {

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

}  // namespace edgedraft::netsim
