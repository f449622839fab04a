#include "client/serve/answer/answer_stream.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/net/http/http_server.h"
#include "tests/net/raw_peer.h"
#include "tests/support/http_client.h"

namespace edgedraft::client {
namespace {

// The stream is longer than a reader may lag. "/late" joins at its start and receives some more of
// it.
class KeptStreamTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMuch = kStreamBacklogMax + 1;

  KeptStreamTest() {
    asking_.write("GET /ask HTTP/1.1\r\nHost: x\r\n\r\n");
    asking_.read_some();
  }

  void serve(const HttpRequest& request, HttpReply reply) {
    if (request.path == "/ask") {
      stream_.emplace(std::move(reply), HttpHeaders{});
      stream_->begin();
      stream_->write(std::string(kMuch, 'a'));
      return;
    }
    // Its socket is full meanwhile.
    stream_->attach(std::move(reply), {}, 0);
    for (const std::string& events : later_) stream_->write(events);
    stream_->end();
  }

  std::vector<std::string> later_;
  std::optional<AnswerStream> stream_;
  HttpServer server_{{.address = "127.0.0.1"}, [this](const HttpRequest& request, HttpReply reply) {
                       serve(request, std::move(reply));
                     }};
  RawPeer asking_{server_.port()};
};

TEST_F(KeptStreamTest, EarlierEventsDoNotCountAsReaderBacklog) {
  later_ = {"b", "c"};
  const std::string body = testing::ask(server_.port(), {.path = "/late"}).body;
  EXPECT_EQ(body.size(), kMuch + 2);
  EXPECT_TRUE(body.ends_with("abc"));
}

TEST_F(KeptStreamTest, DisconnectsReaderThatLagsBehindNewEvents) {
  later_ = {std::string(kMuch, 'b'), "c"};
  const std::string body = testing::ask(server_.port(), {.path = "/late"}).body;
  EXPECT_EQ(body.size(), 2 * kMuch);
  EXPECT_TRUE(body.ends_with('b'));
}

// Named streams, one of which a server's client requests.
class NamedStreamTest : public ::testing::Test {
 protected:
  // The client's result if `act` runs after the stream's events.
  testing::HttpResult told(bool begins, const std::function<void()>& act) {
    name_ += 'n';
    HttpServer server({.address = "127.0.0.1"}, [&](const HttpRequest&, HttpReply reply) {
      const auto stream = std::make_shared<AnswerStream>(std::move(reply), HttpHeaders{});
      EXPECT_TRUE(streams_.put(
          name_, stream, [this] { ++stops_; }, Clock::now()));
      if (begins) {
        stream->begin();
        stream->write("data: {}\n\n");
      }
      stream_ = stream;
      act();
    });
    return testing::ask(server.port(), {});
  }
  static std::string code(const std::string& error) {
    return nlohmann::json::parse(error)["error"]["code"];
  }

  std::string name_;
  boost::asio::io_context io_;
  KeptStreams streams_{io_, {.kept_for = std::chrono::milliseconds(1)}};
  std::weak_ptr<AnswerStream> stream_;
  int stops_ = 0;
};

TEST_F(NamedStreamTest, ReportsDeletionOrReplacementToReaders) {
  const auto remove = [this] { EXPECT_TRUE(streams_.remove(name_)); };
  const auto replace = [this] {
    EXPECT_TRUE(streams_.put(
        name_, nullptr, [] {}, Clock::now()));
  };
  for (const bool is_replaced : {false, true}) {
    const std::string expected = is_replaced ? "stream_replaced" : "stream_deleted";
    const std::function<void()> end = is_replaced ? std::function<void()>(replace) : remove;
    const testing::HttpResult begun = told(/*begins=*/true, end);
    EXPECT_EQ(begun.status, 200u);
    const auto events = testing::event_data(begun.body);
    ASSERT_EQ(events.size(), 2u) << begun.body;
    EXPECT_EQ(code(events.back()), expected);
    const testing::HttpResult silent = told(/*begins=*/false, end);
    EXPECT_EQ(silent.status, is_replaced ? 409u : 410u);
    EXPECT_EQ(code(silent.body), expected);
  }
  EXPECT_EQ(stops_, 4);
}

TEST_F(NamedStreamTest, ForgetsEndedStreamWithoutFurtherRequests) {
  told(/*begins=*/true, [this] {
    const auto stream = stream_.lock();
    stream->end();
    streams_.ended(*stream, Clock::now());
  });
  EXPECT_FALSE(stream_.expired());
  io_.run();
  EXPECT_TRUE(stream_.expired());
}

}  // namespace
}  // namespace edgedraft::client
