#include "shared/net/listening.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <new>
#include <vector>

#include "shared/net/http/http_server.h"

namespace edgedraft {
namespace {

using boost::asio::ip::tcp;

class ListeningTest : public ::testing::Test {
 protected:
  // Why the address cannot be bound; empty if it can.
  std::string refusal_of(const std::string& address, std::uint16_t port) {
    tcp::acceptor acceptor(io_);
    try {
      listen_on(acceptor, address, port);
      return {};
    } catch (const ListenError& e) {
      return e.what();
    }
  }

  boost::asio::io_context io_;
};

TEST_F(ListeningTest, ReportsTakenPortWithRemedy) {
  tcp::acceptor first(io_);
  listen_on(first, "127.0.0.1", 0);
  const std::uint16_t port = first.local_endpoint().port();
  const std::string place = "127.0.0.1:" + std::to_string(port);
  EXPECT_EQ(refusal_of("127.0.0.1", port), place + ": the address is in use; give another port");
  EXPECT_THROW(check_listenable("127.0.0.1", port), ListenError);
  EXPECT_THROW(HttpServer({.address = "127.0.0.1", .port = port},
                          [](const HttpRequest&, const HttpReply&) {}),
               ListenError);
  first.close();
  check_listenable("127.0.0.1", port);
  EXPECT_EQ(refusal_of("127.0.0.1", port), "");
}

// A documentation address (RFC 5737), which no machine has.
TEST_F(ListeningTest, ReportsForeignAddressWithoutSourceLocation) {
  const std::string refusal = refusal_of("192.0.2.1", 0);
  EXPECT_TRUE(refusal.starts_with("192.0.2.1:0: ")) << refusal;
  EXPECT_EQ(refusal.find('['), std::string::npos) << refusal;
}

TEST_F(ListeningTest, ReportsExceptionsAndKeepsRunning) {
  bool served = false;
  boost::asio::post(io_, [] { throw std::bad_alloc(); });
  boost::asio::post(io_, [&] { served = true; });
  std::vector<std::string> failures;
  run_all(io_, [&](const std::string& what) { failures.push_back(what); });
  EXPECT_TRUE(served);
  EXPECT_EQ(failures, std::vector<std::string>{std::bad_alloc().what()});
}

}  // namespace
}  // namespace edgedraft
