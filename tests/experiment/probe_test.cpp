// `edgedraft-netsim probe` against an endpoint that acts as a lossy link.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/process.h"

namespace edgedraft::testing {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// The server's end of a link, as the device's probe sees it.
class FarEnd {
 public:
  FarEnd() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, generic(), size_), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, generic(), &size_), 0);
    EXPECT_EQ(bind(datagrams_, generic(), size_), 0);
  }
  ~FarEnd() {
    for (const int open : {listener_, datagrams_, control_}) close(open);
  }
  std::vector<std::string> probe(std::vector<std::string> options) const {
    options.insert(options.begin(), {EDGEDRAFT_NETSIM, "probe", "--pings", "0", "--connect",
                                     "127.0.0.1:" + std::to_string(ntohs(address_.sin_port))});
    return options;
  }
  // The first request of the probe.
  std::string accept_request() {
    control_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    std::string asked(100, '\0');
    asked.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(control_, asked.data(), 100))));
    return asked;
  }
  void write_stream(std::size_t bytes) const {
    const std::string stream(bytes, '\0');
    EXPECT_EQ(send(control_, stream.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }
  void wait_for_datagram() {
    char byte = 0;
    EXPECT_EQ(recvfrom(datagrams_, &byte, 1, 0, generic(), &size_), 1);
  }
  void send_datagram() {
    const std::string payload(1400, '\0');
    sendto(datagrams_, payload.data(), payload.size(), 0, generic(), size_);
  }

 private:
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_in address_{};  // address of this end, then of the peer
  socklen_t size_ = sizeof address_;
  int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int datagrams_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int control_ = -1;
};

// The device's end of a link, as the server's probe sees it.
class NearEnd {
 public:
  explicit NearEnd(std::uint16_t port) {
    sockaddr_in server{};
    server.sin_family = AF_INET;
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.sin_port = htons(port);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    for (const int socket : {control_, datagrams_}) {
      EXPECT_EQ(setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
      EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&server), sizeof server), 0);
    }
  }
  ~NearEnd() {
    for (const int open : {control_, datagrams_}) close(open);
  }
  void write(const std::string& text) const {
    EXPECT_EQ(send(control_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  std::string read() const {
    std::string text(100, '\0');
    text.resize(
        static_cast<std::size_t>(std::max<ssize_t>(0, recv(control_, text.data(), 100, 0))));
    return text;
  }
  void send_datagram(std::size_t bytes) const {
    const std::string payload(bytes, '\0');
    EXPECT_EQ(send(datagrams_, payload.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }
  ssize_t receive_datagram() const {
    char payload[2000];
    return recv(datagrams_, payload, sizeof payload, 0);
  }

 private:
  int control_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int datagrams_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(ProbeTest, TrainWithLostPacketHasRate) {
  const test::TemporaryDirectory scratch;
  FarEnd far;
  Process probe(far.probe({"--down", "300000"}), scratch / "probe");
  const std::string asked = far.accept_request();
  int packets = 0;
  ASSERT_EQ(std::sscanf(asked.c_str(), "TRAIN_DOWN %d 300000\n", &packets), 1) << asked;
  far.wait_for_datagram();
  for (int i = 1; i < packets; ++i) {
    std::this_thread::sleep_for(1ms);
    far.send_datagram();
  }
  EXPECT_EQ(probe.wait(), 0) << probe.err();
  EXPECT_GT(json::parse(probe.out())["down_bits_per_second"], 0) << probe.out();
}

// So slow that no packet may arrive for a second.
TEST(ProbeTest, SlowTrainSurvivesGaps) {
  const test::TemporaryDirectory scratch;
  FarEnd far;
  Process probe(far.probe({"--down", "30000"}), scratch / "probe");
  far.accept_request();
  far.wait_for_datagram();
  for (int i = 0; i < 80; ++i) {
    std::this_thread::sleep_for(i == 10 ? 1000ms : 1ms);
    far.send_datagram();
  }
  EXPECT_EQ(probe.wait(), 0) << probe.err();
  EXPECT_GT(json::parse(probe.out())["down_bits_per_second"], 0) << probe.out();
}

// The request for the train down is sent three times, as one may be lost. It is not part of the
// train up.
TEST(ProbeTest, BothTrainsHaveRateOverLongDelay) {
  const test::TemporaryDirectory scratch;
  Process server({EDGEDRAFT_NETSIM, "probe", "--listen", "127.0.0.1:0"}, scratch / "server");
  ASSERT_TRUE(server.wait_for_output("\n")) << server.err();
  int port = 0;
  ASSERT_EQ(std::sscanf(server.out().c_str(), "ready 127.0.0.1:%d", &port), 1) << server.out();
  NearEnd near(static_cast<std::uint16_t>(port));

  near.write("TRAIN_DOWN 30 10000000\n");
  for (int i = 0; i < 3; ++i) near.send_datagram(1);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(near.receive_datagram(), 1400);
  near.write("TRAIN_UP 10000000\n");
  EXPECT_EQ(near.read(), "GO\n");
  std::this_thread::sleep_for(800ms);  // 400 ms each way
  for (int i = 0; i < 80; ++i) {
    std::this_thread::sleep_for(1ms);
    near.send_datagram(1400);
  }
  const std::string got = near.read();
  long rate = 0;
  EXPECT_EQ(std::sscanf(got.c_str(), "GOT %ld\n", &rate), 1) << got;
  EXPECT_GT(rate, 0);
}

TEST(ProbeTest, StreamRateIncludesWaitForLostSegment) {
  const test::TemporaryDirectory scratch;
  FarEnd far;
  Process probe(far.probe({"--down", "1000000", "--stream"}), scratch / "probe");
  EXPECT_EQ(far.accept_request(), "DOWN 125000\n");
  far.write_stream(5000);
  std::this_thread::sleep_for(500ms);
  far.write_stream(120'000);
  EXPECT_EQ(probe.wait(), 0) << probe.err();
  const double rate = json::parse(probe.out())["down_bits_per_second"];
  EXPECT_GT(rate, 0);
  EXPECT_LE(rate, 8 * 125'000 / 0.1);
}

}  // namespace
}  // namespace edgedraft::testing
