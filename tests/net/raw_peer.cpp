#include "tests/net/raw_peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace edgedraft {
namespace {

// Exceeds every timeout that a test waits for.
constexpr int kTimeoutSeconds = 20;

int make_socket() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  if (socket < 0) throw std::runtime_error("cannot create a socket");
  return socket;
}

sockaddr_in loopback(std::uint16_t port, std::uint8_t last = 1) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last);
  address.sin_port = htons(port);
  return address;
}

void set_timeout(int socket) {
  const timeval timeout{.tv_sec = kTimeoutSeconds, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

RawPeer::RawPeer(std::uint16_t port, std::uint8_t from) : socket_(make_socket()) {
  set_timeout(socket_);
  const sockaddr_in own = loopback(0, from);
  const sockaddr_in address = loopback(port);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("cannot connect");
  }
}

RawPeer::RawPeer(Accepted accepted) : socket_(accepted.socket) {
  set_timeout(socket_);
}

RawPeer::~RawPeer() {
  close(socket_);
}

void RawPeer::write(ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

Bytes RawPeer::read_some() {
  Bytes bytes(4096);
  const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

Bytes RawPeer::read_to_end() {
  Bytes all;
  for (;;) {
    const Bytes some = read_some();
    if (some.empty()) return all;
    all.insert(all.end(), some.begin(), some.end());
  }
}

void RawPeer::finish_writing() {
  shutdown(socket_, SHUT_WR);
}

void RawPeer::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(socket_);
  socket_ = make_socket();  // for the destructor
}

RawTlsPeer::RawTlsPeer(std::uint16_t port, const Options& options)
    : tcp_(port), context_(SSL_CTX_new(TLS_client_method())) {
  SSL_CTX_set_max_proto_version(context_, options.version_max);
  if (!options.alpn.empty()) {
    SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>(options.alpn.data()),
                            static_cast<unsigned>(options.alpn.size()));
  }
  tls_ = SSL_new(context_);
  SSL_set_fd(tls_, tcp_.socket());
}

RawTlsPeer::~RawTlsPeer() {
  SSL_free(tls_);
  SSL_CTX_free(context_);
}

bool RawTlsPeer::shake_hands() {
  return SSL_connect(tls_) == 1;
}

void RawTlsPeer::write(ByteView bytes) {
  SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()));
}

Bytes RawTlsPeer::read_some() {
  Bytes bytes(4096);
  const int count = SSL_read(tls_, bytes.data(), static_cast<int>(bytes.size()));
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

Bytes RawTlsPeer::read_to_end() {
  Bytes all;
  for (;;) {
    const Bytes some = read_some();
    if (some.empty()) return all;
    all.insert(all.end(), some.begin(), some.end());
  }
}

std::uint32_t RawTlsPeer::early_data_bytes_max() const {
  return SSL_SESSION_get_max_early_data(SSL_get0_session(tls_));
}

RawServer::RawServer(std::function<void(RawPeer&)> serve, std::uint16_t port)
    : socket_(make_socket()) {
  sockaddr_in address = loopback(port);
  socklen_t length = sizeof address;
  const int yes = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    close(socket_);
    throw std::runtime_error("cannot bind");
  }
  listen(socket_, 16);
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, serve = std::move(serve)] {
    for (;;) {
      const int accepted = accept(socket_, nullptr, nullptr);
      if (accepted < 0) return;
      RawPeer peer(RawPeer::Accepted{accepted});
      serve(peer);
    }
  });
}

RawServer::~RawServer() {
  shutdown(socket_, SHUT_RDWR);  // wakes accept()
  thread_.join();
  close(socket_);
}

}  // namespace edgedraft
