#include "client/serve/kept_stream.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/net/http/http_server.h"
#include "tests/net/raw_peer.h"
#include "tests/support/http_client.h"

namespace edgedraft {
namespace {

// A stream is longer already than a reader may lag. "/late" joins at its beginning and hears some
// more of it.
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
    // Nothing is taken by its socket meanwhile.
    stream_->attach(std::move(reply), {}, 0);
    for (const std::string& events : later_) stream_->write(events);
    stream_->end();
  }

  std::vector<std::string> later_;
  std::optional<KeptStream> stream_;
  HttpServer server_{{.address = "127.0.0.1"}, [this](const HttpRequest& request, HttpReply reply) {
                       serve(request, std::move(reply));
                     }};
  RawPeer asking_{server_.port()};
};

TEST_F(KeptStreamTest, AReaderIsNotBehindWithWhatWasThereBeforeIt) {
  later_ = {"b", "c"};
  const std::string body = testing::ask(server_.port(), {.path = "/late"}).body;
  EXPECT_EQ(body.size(), kMuch + 2);
  EXPECT_TRUE(body.ends_with("abc"));
}

TEST_F(KeptStreamTest, AReaderThatIsBehindWithWhatCameSinceIsLetGo) {
  later_ = {std::string(kMuch, 'b'), "c"};
  const std::string body = testing::ask(server_.port(), {.path = "/late"}).body;
  EXPECT_EQ(body.size(), 2 * kMuch);
  EXPECT_TRUE(body.ends_with('b'));
}

}  // namespace
}  // namespace edgedraft
