#include "shared/net/http/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/net/raw_peer.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using namespace std::chrono_literals;

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads until `mark` arrives or the stream ends.
std::string read_until(RawPeer& peer, const std::string& mark) {
  std::string text;
  while (text.find(mark) == std::string::npos) {
    const Bytes part = peer.read_some();
    if (part.empty()) break;
    text += text_of(part);
  }
  return text;
}

class HttpServerTest : public ::testing::Test {
 protected:
  std::string post(const std::string& path, const std::string& body,
                   const std::string& headers = "Connection: close\r\n") {
    RawPeer peer(server_.port());
    peer.write("POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return text_of(peer.read_to_end());
  }
  HttpReply held() { return held_.get_future().get(); }

  std::promise<HttpReply> held_;
  HttpServer server_{
      {.address = "127.0.0.1",
       .bodies_bytes_max = 2u << 20,
       .connections_max = 40,
       .keeps_alive = true,
       .timeout = 1000ms,
       .idle_timeout = 500ms,
       .body_bytes_max =
           [](const HttpRequest& head) { return head.path == "/open" ? 0u : 1u << 20; }},
      [this](const HttpRequest& request, HttpReply reply) {
        if (request.path == "/echo") {
          reply.send({.content_type = "text/plain", .body = request.body});
        } else if (request.path == "/held") {
          held_.set_value(std::move(reply));
        } else if (request.path == "/open") {
          reply.send({.content_type = "text/plain", .body = std::to_string(request.body.size())});
        } else if (request.path == "/throws") {
          throw std::runtime_error("no");
        } else if (request.path == "/header") {
          reply.send({.content_type = "text/plain",
                      .body = std::string(request.header("x-some").value_or("-"))});
        }
      }};
};

TEST_F(HttpServerTest, ServesSeveralRequestsPerConnection) {
  RawPeer peer(server_.port());
  for (const std::string body : {"one", "two", "three"}) {
    peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
               "\r\n\r\n" + body);
    EXPECT_TRUE(read_until(peer, "\r\n\r\n" + body).starts_with("HTTP/1.1 200 OK\r\n"));
  }
  // Two pipelined requests are answered in order.
  peer.write(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb");
  const std::string both = read_until(peer, "\r\n\r\nb");
  EXPECT_TRUE(contains(both, "\r\n\r\na"));
  EXPECT_TRUE(peer.read_to_end().empty()) << "idle connections are closed";
}

TEST_F(HttpServerTest, AssemblesBodiesFromAnyParts) {
  const std::string body(300'000, 'y');
  EXPECT_TRUE(post("/echo", body).ends_with("\r\n\r\n" + body));
  RawPeer peer(server_.port());
  peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const std::string part : {"3\r\nabc\r\n", "2\r", "\nde\r\n0\r\n\r\n"}) {
    peer.write(part);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_TRUE(contains(read_until(peer, "abcde"), "\r\n\r\nabcde"));
}

TEST_F(HttpServerTest, AnswersExpectContinue) {
  RawPeer peer(server_.port());
  peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_TRUE(read_until(peer, "\r\n\r\n").starts_with("HTTP/1.1 100 "));
  peer.write("body");
  EXPECT_TRUE(contains(read_until(peer, "body"), "\r\n\r\nbody"));
}

TEST_F(HttpServerTest, RefusesBodyOverLimitBeforeReading) {
  RawPeer peer(server_.port());
  peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_TRUE(text_of(peer.read_to_end()).starts_with("HTTP/1.1 413 "));
  RawPeer endless(server_.port());
  endless.write("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, 'z') + "\r\n";
  for (int i = 0; i < 40; ++i) endless.write(chunk);
  EXPECT_TRUE(text_of(endless.read_to_end()).starts_with("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, AnswersWithoutReadingUnusedBody) {
  RawPeer peer(server_.port());
  peer.write("POST /open HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
  const std::string answer = text_of(peer.read_to_end());
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n0")) << answer;
  RawPeer empty(server_.port());
  for (int i = 0; i < 2; ++i) {
    empty.write("POST /open HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    EXPECT_TRUE(contains(read_until(empty, "\r\n\r\n0"), "200 OK")) << "the connection stays open";
  }
}

TEST_F(HttpServerTest, BoundsTotalBodiesOfAllConnections) {
  const std::string part(700u << 10, 'z');
  const auto begin = [&](RawPeer& peer) {
    peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
               std::to_string(part.size() + 1) + "\r\n\r\n" + part);
  };
  RawPeer first(server_.port());
  RawPeer second(server_.port());
  begin(first);
  begin(second);
  std::this_thread::sleep_for(200ms);
  RawPeer third(server_.port());
  begin(third);
  EXPECT_TRUE(text_of(third.read_to_end()).starts_with("HTTP/1.1 503 "));
  first.write("!");
  second.write("!");
  EXPECT_TRUE(text_of(first.read_to_end()).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(text_of(second.read_to_end()).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(post("/echo", part).starts_with("HTTP/1.1 200 ")) << "body memory is free again";
}

// The body of a refused request need not be read.
TEST(HttpRefusalTest, RefusesByHeaderWithoutReadingBody) {
  std::atomic<int> handled = 0;
  const HttpServer server({.address = "127.0.0.1",
                           .keeps_alive = true,
                           .refuse = [](const HttpRequest& head) -> std::optional<HttpAnswer> {
                             if (head.header("Key") == "right") return std::nullopt;
                             return HttpAnswer{
                                 .status = 401, .content_type = "text/plain", .body = "no"};
                           },
                           .body_bytes_max = [](const HttpRequest&) { return 1u << 30; }},
                          [&](const HttpRequest&, HttpReply reply) {
                            ++handled;
                            reply.send({.content_type = "text/plain", .body = "yes"});
                          });
  RawPeer stranger(server.port());
  stranger.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
  const std::string refused = text_of(stranger.read_to_end());
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 401 ")) << refused;
  EXPECT_TRUE(contains(refused, "Connection: close"));
  EXPECT_EQ(handled, 0);
  RawPeer friendly(server.port());
  friendly.write(
      "POST / HTTP/1.1\r\nHost: x\r\nKey: right\r\nConnection: close\r\nContent-Length: "
      "2\r\n\r\nhi");
  EXPECT_TRUE(text_of(friendly.read_to_end()).ends_with("yes"));
  EXPECT_EQ(handled, 1);
}

// Request smuggling: two ends that disagree on a request's length see different requests.
TEST_F(HttpServerTest, RefusesContradictoryLengths) {
  const std::string start = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  for (const std::string headers : {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                                    "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                                    "Content-Length: 4\r\nContent-Length: 5\r\n",
                                    "Content-Length: +4\r\n", "Content-Length: 0x4\r\n"}) {
    RawPeer peer(server_.port());
    peer.write(start + headers + "\r\n0\r\n\r\n");
    EXPECT_TRUE(text_of(peer.read_to_end()).starts_with("HTTP/1.1 400 ")) << headers;
  }
}

// A proxy may have used the first of two headers, or neither.
TEST_F(HttpServerTest, RefusesRequestSmuggling) {
  const std::string body = "0\r\n\r\nPOST /echo HTTP/1.1\r\nHost: x\r\n\r\n";
  for (const std::string headers :
       {"Host: x\r\nHost: y\r\n", "Host: x\r\nTransfer-Encoding: xchunked\r\n",
        "Host: x\r\nTransfer-Encoding: identity\r\n", "Host: x\r\nTransfer-Encoding : chunked\r\n",
        "Host: x\r\nTransfer-Encoding: chunked, gzip\r\n", "Host: x\r\nContent-Length: 4, 5\r\n",
        "Host: x\r\nContent-Length: -1\r\n", "Host: x\r\nContent-Length: 4 4\r\n",
        "Host: x\r\nContent-Length: 99999999999999999999\r\n", "Host: x\r\nA\x01: y\r\n",
        "Host: x\r\nNo colon\r\n", "Host: x\nA: y\n"}) {
    RawPeer peer(server_.port());
    peer.write("POST /echo HTTP/1.1\r\n" + headers + "\r\n" + body);
    const std::string said = text_of(peer.read_to_end());
    EXPECT_TRUE(said.starts_with("HTTP/1.1 4")) << headers << said;
    EXPECT_EQ(said.find("HTTP/1.1", 1), std::string::npos) << "second answer to " << headers;
  }
  for (const std::string chunk :
       {"-1\r\n", "g\r\nx\r\n", "ffffffffffffffffff\r\n", "1\r\nxx\r\n", "1;\x01\r\nx\r\n"}) {
    RawPeer peer(server_.port());
    peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk +
               body);
    const std::string said = text_of(peer.read_to_end());
    EXPECT_TRUE(said.starts_with("HTTP/1.1 4")) << chunk << said;
  }
}

// Incomplete requests and silent clients give their slots to clients with a request.
TEST_F(HttpServerTest, ClosesConnectionsWithoutRequestForNewOnes) {
  std::list<RawPeer> idle;
  for (int i = 0; i < 100; ++i) {
    idle.emplace_back(server_.port());
    if (i % 2 == 0) idle.back().write("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n");
  }
  EXPECT_TRUE(post("/echo", "hello").ends_with("hello"));
  // A client with a request keeps its slot.
  RawPeer asked(server_.port());
  asked.write("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  HttpReply reply = held();
  for (int i = 0; i < 100; ++i) idle.emplace_back(server_.port());
  EXPECT_TRUE(post("/echo", "again").ends_with("again"));
  reply.send({.content_type = "text/plain", .body = "answered"});
  EXPECT_TRUE(contains(read_until(asked, "answered"), "answered"));
}

TEST(HttpLimitTest, ClosesNewConnectionIfAllAwaitAnswers) {
  std::mutex mutex;
  std::vector<HttpReply> unanswered;
  const HttpServer server({.address = "127.0.0.1", .connections_max = 3},
                          [&](const HttpRequest&, HttpReply reply) {
                            const std::lock_guard lock(mutex);
                            unanswered.push_back(std::move(reply));
                          });
  const auto waiting = [&] {
    const std::lock_guard lock(mutex);
    return unanswered.size();
  };
  constexpr const char* kRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  std::list<RawPeer> peers;
  for (std::size_t i = 1; i <= 3; ++i) {
    peers.emplace_back(server.port()).write(kRequest);
    while (waiting() < i) std::this_thread::sleep_for(1ms);
  }
  RawPeer another(server.port());
  another.write(kRequest);
  EXPECT_TRUE(another.read_to_end().empty());
  for (HttpReply& reply : unanswered) reply.send({.content_type = "text/plain", .body = "late"});
  for (RawPeer& peer : peers) EXPECT_TRUE(text_of(peer.read_to_end()).ends_with("late"));
}

// A client that stays connected after its answer holds no slot.
TEST(HttpLimitTest, ClosesAnsweredConnectionForNewOne) {
  const HttpServer server({.address = "127.0.0.1", .connections_max = 3},
                          [](const HttpRequest&, HttpReply reply) {
                            reply.send({.content_type = "text/plain", .body = "answered"});
                          });
  std::list<RawPeer> peers;
  for (int i = 0; i < 9; ++i) {
    peers.emplace_back(server.port()).write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(text_of(peers.back().read_to_end()).ends_with("answered")) << i;
  }
}

TEST_F(HttpServerTest, FindsHeadersInAnyCase) {
  EXPECT_TRUE(post("/header", "", "X-SOME: value\r\nConnection: close\r\n").ends_with("value"));
  EXPECT_TRUE(post("/header", "").ends_with("-"));
}

TEST_F(HttpServerTest, StreamsChunksAsWritten) {
  RawPeer peer(server_.port());
  peer.write("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  HttpReply reply = held();
  reply.begin({.content_type = "text/event-stream", .body = "one"});
  const std::string head = read_until(peer, "3\r\none\r\n");
  EXPECT_TRUE(contains(head, "Transfer-Encoding: chunked\r\n"));
  reply.write("three");
  EXPECT_EQ(read_until(peer, "\r\nthree\r\n"), "5\r\nthree\r\n");
  reply.end();
  EXPECT_EQ(read_until(peer, "0\r\n\r\n"), "0\r\n\r\n");
  peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nnext");
  EXPECT_TRUE(contains(read_until(peer, "next"), "200 OK")) << "the connection stays open";
}

TEST_F(HttpServerTest, EndsHttp10StreamByClosing) {
  RawPeer peer(server_.port());
  peer.write("GET /held HTTP/1.0\r\n\r\n");
  HttpReply reply = held();
  reply.begin({.content_type = "text/plain", .body = "one"});
  reply.write(" two");
  reply.end();
  const std::string all = text_of(peer.read_to_end());
  EXPECT_TRUE(all.ends_with("\r\n\r\none two")) << all;
  EXPECT_EQ(all.find("chunked"), std::string::npos);
}

TEST_F(HttpServerTest, SendsFillerOnQuietStream) {
  RawPeer peer(server_.port());
  peer.write("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  HttpReply reply = held();
  reply.begin({.content_type = "text/event-stream", .body = "a"}, 20ms, ":\n\n");
  EXPECT_TRUE(contains(read_until(peer, "3\r\n:\n\n\r\n3\r\n:\n\n\r\n"), "3\r\n:\n\n\r\n"));
  EXPECT_EQ(reply.backlog_bytes(), 0u);
}

TEST_F(HttpServerTest, NoticesDisconnectAtOnce) {
  for (const bool streaming : {false, true}) {
    held_ = {};
    RawPeer peer(server_.port());
    peer.write("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
    HttpReply reply = held();
    std::promise<HttpGone> gone;
    reply.on_gone([&](HttpGone how) { gone.set_value(how); });
    if (streaming) {
      reply.begin({.content_type = "text/plain", .body = "a"});
      (void)read_until(peer, "a");
    }
    EXPECT_FALSE(reply.gone());
    peer.finish_writing();
    auto told = gone.get_future();
    ASSERT_EQ(told.wait_for(10s), std::future_status::ready);
    EXPECT_EQ(told.get(), HttpGone::left);
    EXPECT_TRUE(reply.gone());
    reply.on_gone([](HttpGone) {});
    if (streaming) reply.write("nobody hears it");
  }
}

TEST_F(HttpServerTest, DoesNotMistakePipelinedRequestForDisconnect) {
  RawPeer peer(server_.port());
  peer.write("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  HttpReply reply = held();
  peer.write("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nnext");
  std::this_thread::sleep_for(30ms);
  EXPECT_FALSE(reply.gone());
  reply.send({.content_type = "text/plain", .body = "first"});
  const std::string both = read_until(peer, "next");
  EXPECT_LT(both.find("first"), both.find("next"));
}

TEST_F(HttpServerTest, NoticesDisconnectAfterExtraBytes) {
  std::optional<RawPeer> peer(server_.port());
  peer->write("POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n\r\n");
  HttpReply reply = held();
  std::promise<void> told;
  reply.on_gone([&](HttpGone) { told.set_value(); });
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(reply.gone());
  peer.reset();
  EXPECT_EQ(told.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(HttpServerTest, CutsOffStalledReader) {
  RawPeer peer(server_.port());
  peer.write("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  HttpReply reply = held();
  std::promise<HttpGone> gone;
  reply.on_gone([&](HttpGone how) { gone.set_value(how); });
  reply.begin({.content_type = "text/plain", .body = {}});
  for (int i = 0; i < 64; ++i) reply.write(std::string(1u << 20, 'x'));
  EXPECT_GT(reply.backlog_bytes(), 32u << 20);
  auto told = gone.get_future();
  ASSERT_EQ(told.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(told.get(), HttpGone::stalled);
}

TEST_F(HttpServerTest, AnswersDroppedOrThrowingRequestWith500) {
  for (const std::string path : {"/dropped", "/throws"}) {
    EXPECT_TRUE(post(path, "").starts_with("HTTP/1.1 500 ")) << path;
  }
}

TEST_F(HttpServerTest, RepliesOutliveTheServer) {
  std::promise<HttpReply> kept;
  auto server = std::make_unique<HttpServer>(
      HttpServerOptions{.address = "127.0.0.1"},
      [&](const HttpRequest&, HttpReply reply) { kept.set_value(std::move(reply)); });
  RawPeer peer(server->port());
  peer.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  HttpReply reply = kept.get_future().get();
  server.reset();
  EXPECT_TRUE(reply.gone());
  reply.send({.content_type = "text/plain", .body = "too late"});
}

// From many threads at once, with clients that connect and disconnect.
TEST_F(HttpServerTest, ServesManyClientsAtOnce) {
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (int c = 0; c < 16; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) {
        const std::string body = std::to_string(c) + "-" + std::to_string(i);
        if (i % 5 == 4) {
          RawPeer(server_.port()).write("POST /echo HTTP/1.1\r\nContent-Le");
        } else if (post("/echo", body).ends_with("\r\n\r\n" + body)) {
          ++right;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 16 * 16);
}

}  // namespace
}  // namespace edgedraft
