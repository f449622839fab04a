#include "server/metrics/pages.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/system/system_error.hpp>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/net/raw_peer.h"

// Monitors, and peers that misbehave. None delays the next one's answer.
namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;

class PageHandlerTest : public ::testing::Test {
 protected:
  // Generous, for a busy machine.
  explicit PageHandlerTest(std::chrono::milliseconds timeout = 10s) : timeout_(timeout) {}
  ~PageHandlerTest() override {
    // The end of the last connection may not be registered yet.
    std::string answer;
    for (int i = 0; i < 500 && answer.empty(); ++i) {
      answer = get("/page");
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << "the next client is not served";
  }

  static std::string text_of(const Bytes& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::string ask(const std::string& request) {
    RawPeer peer(endpoint_.port());
    peer.write(request);
    return text_of(peer.read_to_end());
  }

  std::string get(const std::string& path) {
    return ask("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }

  static constexpr std::size_t kHugeBytes = 64u << 20;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::vector<std::string> failures_;
  HttpServer endpoint_{{.address = "127.0.0.1",
                        .connections_max = 3,
                        .timeout = timeout_,
                        .on_failure =
                            [this](const std::string& what) {
                              const std::lock_guard lock(mutex_);
                              failures_.push_back(what);
                            }},
                       page_handler([](std::string_view path) -> std::optional<HttpAnswer> {
                         if (path == "/page")
                           return HttpAnswer{.content_type = "text/plain", .body = "a page\n"};
                         if (path == "/broken") throw std::runtime_error("no such number");
                         if (path == "/huge") {
                           return HttpAnswer{.content_type = "text/plain",
                                             .body = std::string(kHugeBytes, 'x')};
                         }
                         return std::nullopt;
                       })};
};

// With a timeout too short to wait.
class ImpatientPageHandlerTest : public PageHandlerTest {
 protected:
  ImpatientPageHandlerTest() : PageHandlerTest(300ms) {}
};

TEST_F(PageHandlerTest, SendsPageWithLengthAndCloses) {
  const std::string answer = get("/page");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 7\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\na page\n")) << answer;
}

TEST_F(PageHandlerTest, IgnoresQueryInPath) {
  EXPECT_TRUE(get("/page?name[]=up").ends_with("a page\n"));
}

TEST_F(PageHandlerTest, HeadSendsHeaderOnly) {
  const std::string answer = ask("HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 7\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST_F(PageHandlerTest, UnknownPathsAreNotFound) {
  for (const std::string path : {"/", "/pages", "/page/", "//page", "/../page", "/%70age"}) {
    EXPECT_TRUE(get(path).starts_with("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(PageHandlerTest, ReportsFailedPageToClientAndOperator) {
  for (int i = 0; i < 5; ++i) {  // more than its connection limit
    EXPECT_TRUE(get("/broken").starts_with("HTTP/1.1 500 ")) << i;
  }
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(failures_.size(), 5u);
  EXPECT_EQ(failures_[0], "/broken: no such number");
}

TEST_F(PageHandlerTest, OtherMethodsAreNotAllowed) {
  for (const std::string method : {"POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "BREW"}) {
    const std::string answer =
        ask(method + " /page HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << method << ": " << answer;
    EXPECT_NE(answer.find("Allow: GET, HEAD\r\n"), std::string::npos) << answer;
  }
}

TEST_F(PageHandlerTest, RefusesHeaderOverLimit) {
  EXPECT_TRUE(ask("GET /page HTTP/1.1\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n")
                  .starts_with("HTTP/1.1 431 "));
  std::string many = "GET /page HTTP/1.1\r\n";
  for (int i = 0; i < 10'000; ++i) many += "X: y\r\n";
  EXPECT_TRUE(ask(many + "\r\n").starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(get("/" + std::string(100'000, 'a')).starts_with("HTTP/1.1 4"));
}

TEST_F(PageHandlerTest, RefusesMalformedHttp) {
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15),
        std::string("hello\r\n\r\n"), std::string("GET /page HTTP/9.9\r\n\r\n"),
        std::string("GET /page HTTP/1.1\r\nno colon\r\n\r\n"),
        std::string("GET /page HTTP/1.1\r\nContent-Length: -1\r\n\r\n")}) {
    EXPECT_TRUE(ask(bytes).starts_with("HTTP/1.1 400 ")) << bytes;
  }
}

TEST_F(PageHandlerTest, ForgetsClientsThatResetMidRequest) {
  for (int i = 0; i < 50; ++i) {
    RawPeer peer(endpoint_.port());
    peer.write("GET /pa");
    peer.reset();
  }
}

TEST_F(ImpatientPageHandlerTest, CutsOffRequestThatNeverEnds) {
  RawPeer silent(endpoint_.port());
  RawPeer slow(endpoint_.port());
  slow.write("GET /page HTTP/1.1\r\nX: ");
  EXPECT_TRUE(silent.read_to_end().empty());
  EXPECT_TRUE(slow.read_to_end().empty());
}

TEST_F(ImpatientPageHandlerTest, CutsOffClientThatTricklesBytes) {
  RawPeer peer(endpoint_.port());
  peer.write("GET /page HTTP/1.1\r\nX: ");
  // Each byte is in time, the whole request is not.
  for (int i = 0; i < 2000 && send(peer.socket(), "a", 1, MSG_NOSIGNAL) == 1; ++i) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_LT(send(peer.socket(), "a", 1, MSG_NOSIGNAL), 0);
}

TEST_F(ImpatientPageHandlerTest, CutsOffClientThatDoesNotRead) {
  RawPeer peer(endpoint_.port());
  peer.write("GET /huge HTTP/1.1\r\nHost: x\r\n\r\n");
  RawPeer after(endpoint_.port());
  EXPECT_TRUE(after.read_to_end().empty());  // by now the first one has timed out, too
  std::size_t received = 0;
  for (Bytes part; !(part = peer.read_some()).empty();) received += part.size();
  EXPECT_LT(received, kHugeBytes);
}

TEST_F(PageHandlerTest, ClosesLongestSilentConnectionOverLimit) {
  RawPeer first(endpoint_.port());
  RawPeer second(endpoint_.port());
  RawPeer third(endpoint_.port());
  EXPECT_TRUE(get("/page").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(first.read_to_end().empty());
  // Accepted clients are still served.
  for (RawPeer* const inside : {&second, &third}) {
    inside->write("GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(text_of(inside->read_to_end()).starts_with("HTTP/1.1 200 "));
  }
}

TEST_F(PageHandlerTest, ThrowsIfPortIsTaken) {
  EXPECT_THROW(HttpServer({.address = "127.0.0.1", .port = endpoint_.port()},
                          page_handler([](std::string_view) { return std::nullopt; })),
               boost::system::system_error);
}

}  // namespace
}  // namespace edgedraft::server
