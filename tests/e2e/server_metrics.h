#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "tests/e2e/process.h"
#include "tests/net/raw_peer.h"
#include "tests/support/metrics_reading.h"

namespace edgedraft::testing {

// A page of a server started with --metrics 127.0.0.1:0: the whole HTTP answer, or nothing if no
// server listens.
inline std::string metrics_page(Process& server, const std::string& path) {
  const std::string before = "metrics at http://127.0.0.1:";
  EXPECT_TRUE(server.wait_for_error(before));
  const std::string log = server.err();
  const auto port = std::stoul(log.substr(log.find(before) + before.size()));
  RawPeer peer(static_cast<std::uint16_t>(port));
  peer.write("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Bytes bytes = peer.read_to_end();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

inline std::map<std::string, double> metrics_of(Process& server) {
  const std::string answer = metrics_page(server, "/metrics");
  const std::size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 200 OK\r\n") || head == std::string::npos) {
    ADD_FAILURE() << "no metrics: " << answer.substr(0, 200);
    return {};
  }
  return read_metrics(answer.substr(head + 4));
}

// After this many generated tokens the client has received some, as they arrive once per pass.
inline constexpr double kIntoTheAnswer = 6;

// Waits until the server has generated at least `count` tokens. Returns their number.
inline double wait_for_tokens(Process& server, double count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    const double tokens = metrics_of(server)["generation_tokens_total"];
    if (tokens >= count) return tokens;
    if (!server.running() || std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "no answer in progress: " << server.err();
      return tokens;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace edgedraft::testing
