#include "shared/net/dialer.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <exception>
#include <vector>

#include "tests/net/raw_peer.h"

namespace edgedraft {
namespace {

using boost::asio::ip::tcp;

// Resolves a name to these ports of the loopback.
NameResolver name_of(std::vector<std::uint16_t> ports) {
  return [ports = std::move(ports)](const std::string&, const std::string&,
                                    boost::system::error_code&) {
    Endpoints endpoints;
    for (const std::uint16_t port : ports) {
      endpoints.emplace_back(boost::asio::ip::address_v4::loopback(), port);
    }
    return endpoints;
  };
}

class Dialed {
 public:
  explicit Dialed(std::vector<std::uint16_t> ports)
      : dialer_(name_of(std::move(ports)), "server.invalid", "7420") {}

  // Returns the port that was reached; 0 without a connection.
  std::uint16_t connect() {
    boost::asio::io_context io;
    tcp::socket socket(io);
    boost::asio::co_spawn(
        io, dialer_.connect(socket),
        [this](const std::exception_ptr& failure, boost::system::error_code error) {
          EXPECT_FALSE(failure);
          error_ = error;
        });
    io.run();
    return error_ ? 0 : socket.remote_endpoint().port();
  }
  const boost::system::error_code& error() const { return error_; }
  void keep() { dialer_.keep(); }

 private:
  Dialer dialer_;
  boost::system::error_code error_;
};

// A port that does not answer: the kernel drops connection attempts while its queue is full.
class SilentPort {
 public:
  SilentPort() : sockets_{make(0)} {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(sockets_[0], any, length), 0);
    EXPECT_EQ(listen(sockets_[0], 0), 0);
    EXPECT_EQ(getsockname(sockets_[0], any, &length), 0);
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < 3; ++i) {
      sockets_.push_back(make(SOCK_NONBLOCK));
      ::connect(sockets_.back(), any, length);
    }
  }
  ~SilentPort() {
    for (const int socket : sockets_) close(socket);
  }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  static int make(int flags) { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); }

  std::vector<int> sockets_;
  std::uint16_t port_ = 0;
};

void hang_up(RawPeer&) {}

// A port without a listener.
std::uint16_t closed_port() {
  return RawServer(hang_up).port();
}

TEST(DialerTest, SilentAddressDoesNotDelayNextOne) {
  const SilentPort silent;
  const RawServer server(hang_up);
  EXPECT_EQ(Dialed({silent.port(), server.port()}).connect(), server.port());
}

TEST(DialerTest, SkipsRefusingAddress) {
  const RawServer server(hang_up);
  EXPECT_EQ(Dialed({closed_port(), server.port()}).connect(), server.port());
}

TEST(DialerTest, ReportsCauseIfNoAddressAnswers) {
  Dialed nobody({closed_port(), closed_port()});
  EXPECT_EQ(nobody.connect(), 0);
  EXPECT_EQ(nobody.error(), boost::asio::error::connection_refused);
  Dialed nowhere({});
  EXPECT_EQ(nowhere.connect(), 0);
  EXPECT_EQ(nowhere.error(), boost::asio::error::host_not_found);
}

TEST(DialerTest, StartsWithKeptAddressOrAfterLastTriedOne) {
  const RawServer first(hang_up);
  const RawServer second(hang_up);
  Dialed dialed({first.port(), second.port()});
  EXPECT_EQ(dialed.connect(), first.port());
  EXPECT_EQ(dialed.connect(), second.port());
  EXPECT_EQ(dialed.connect(), first.port()) << "wraps around after the last address";
  EXPECT_EQ(dialed.connect(), second.port());
  dialed.keep();
  EXPECT_EQ(dialed.connect(), second.port());
  EXPECT_EQ(dialed.connect(), first.port()) << "keep() applies once";
}

}  // namespace
}  // namespace edgedraft
