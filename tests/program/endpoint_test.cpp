#include "shared/program/endpoint.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

TEST(EndpointTest, ParsesHostAndPort) {
  const auto connect = [](std::string_view text) {
    return parse_endpoint(text, EndpointUse::connect).value();
  };
  EXPECT_EQ(connect("127.0.0.1:7420"), (Endpoint{"127.0.0.1", 7420}));
  EXPECT_EQ(connect("[::1]:9"), (Endpoint{"::1", 9}));
  EXPECT_EQ(connect("[fe80::1%eth0]:65535"), (Endpoint{"fe80::1%eth0", 65535}));
  EXPECT_EQ(connect("gpu.example.org:443"), (Endpoint{"gpu.example.org", 443}));
  EXPECT_EQ(connect("localhost:1"), (Endpoint{"localhost", 1}));
  EXPECT_EQ(connect("h:007"), (Endpoint{"h", 7}));
}

TEST(EndpointTest, ListenersAcceptPortZeroAndResolveLocalhost) {
  EXPECT_EQ(parse_endpoint("[::]:0", EndpointUse::listen).value(), (Endpoint{"::", 0}));
  EXPECT_EQ(parse_endpoint("localhost:0", EndpointUse::listen).value(), (Endpoint{"127.0.0.1", 0}));
  const auto connect = parse_endpoint("127.0.0.1:0", EndpointUse::connect);
  ASSERT_FALSE(connect);
  EXPECT_EQ(connect.error().code, Errc::usage);
}

TEST(EndpointTest, RejectsInvalidEndpointsWithExample) {
  for (const std::string_view text : {"",
                                      ":",
                                      "7420",
                                      "localhost",
                                      ":7420",
                                      "host:",
                                      "host:x",
                                      "host:7x",
                                      "host:-1",
                                      "host:+1",
                                      "host: 1",
                                      "host:65536",
                                      "host:99999999999",
                                      "::1:7420",
                                      "[::1]",
                                      "[::1]7420",
                                      "[]:1",
                                      "[::1:7",
                                      "::1]:7",
                                      "a[b]:1"}) {
    for (const EndpointUse use : {EndpointUse::listen, EndpointUse::connect}) {
      const auto parsed = parse_endpoint(text, use);
      ASSERT_FALSE(parsed) << text;
      EXPECT_EQ(parsed.error().code, Errc::usage);
      EXPECT_NE(parsed.error().message.find('\'' + std::string(text) + '\''), std::string::npos);
      EXPECT_NE(parsed.error().message.find("[::1]:7420"), std::string::npos);
    }
  }
}

TEST(EndpointTest, RoundTripsText) {
  for (const char* text : {"127.0.0.1:7420", "[::1]:9", "gpu.example.org:443"}) {
    EXPECT_EQ(to_string(parse_endpoint(text, EndpointUse::connect).value()), text);
  }
}

// A name that starts like a loopback address is resolved like any other.
TEST(EndpointTest, HostNamesAreNotLoopback) {
  for (const char* host : {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"127.example.org", "127.0.0.1.example.org", "127.1", "0.0.0.0",
                           "::", "128.0.0.1", "::ffff:10.0.0.1", "10.127.0.1", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace edgedraft
