#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "shared/base/bytes.h"

// Low-level peers that can break the protocol.
namespace edgedraft {

// A TCP connection with blocking calls and timeouts.
class RawPeer {
 public:
  // Connects to a port of the loopback, from 127.0.0.`from`.
  explicit RawPeer(std::uint16_t port, std::uint8_t from = 1);
  struct Accepted {
    int socket;
  };
  explicit RawPeer(Accepted accepted);
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void write(std::string_view text) { write(as_byte_view(text)); }
  // Ignores errors: the server may have closed the connection, as it should.
  void write(ByteView bytes);
  Bytes read_some();
  Bytes read_to_end();
  void finish_writing();  // FIN
  void reset();           // RST
  int socket() const { return socket_; }

 private:
  int socket_;
};

// A TLS client on a RawPeer.
class RawTlsPeer {
 public:
  struct Options {
    int version_max = TLS1_3_VERSION;
    std::string alpn =
        "\x0b"
        "edgedraft/1";  // in wire form; empty: none
  };
  RawTlsPeer(std::uint16_t port, const Options& options);
  ~RawTlsPeer();
  RawTlsPeer(const RawTlsPeer&) = delete;
  RawTlsPeer& operator=(const RawTlsPeer&) = delete;

  bool shake_hands();
  void write(ByteView bytes);
  Bytes read_some();
  Bytes read_to_end();
  std::uint32_t early_data_bytes_max() const;
  RawPeer& tcp() { return tcp_; }

 private:
  RawPeer tcp_;
  SSL_CTX* context_;
  SSL* tls_;
};

// Serves loopback connections one at a time with `serve`. Port 0 picks a free port.
class RawServer {
 public:
  explicit RawServer(std::function<void(RawPeer&)> serve, std::uint16_t port = 0);
  ~RawServer();
  std::uint16_t port() const { return port_; }

 private:
  int socket_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace edgedraft
