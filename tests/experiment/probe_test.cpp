// `edgedraft-netsim probe` against a far end that does what a lossy link does.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
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

// The server's end of a link as the probe at the device's end sees it.
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
  // What the probe asks for first.
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

  sockaddr_in address_{};  // of this end, then of the one that it hears from
  socklen_t size_ = sizeof address_;
  int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int datagrams_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int control_ = -1;
};

TEST(ProbeTest, ATrainOfWhichAPacketIsLostStillHasARate) {
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

TEST(ProbeTest, AStreamThatWaitsForALostSegmentIsNotTakenForAFasterOne) {
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
