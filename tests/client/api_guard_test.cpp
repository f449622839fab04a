#include "client/serve/api_guard.h"

#include <gtest/gtest.h>

#include "client/serve/answer/answer_stream.h"

namespace edgedraft::client {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

HttpRequest request(Headers headers, const std::string& method = "GET") {
  return {.method = method,
          .path = "/v1/models",
          .query = {},
          .headers = std::move(headers),
          .body = {}};
}

unsigned status(const ApiGuard& guard, const Headers& headers, bool needs_key = true) {
  const auto refusal = guard.refusal(request(headers), needs_key);
  return refusal ? refusal->status : 200;
}

TEST(ApiGuardTest, AcceptsAddressesLocalhostAndAllowedHosts) {
  const ApiGuard guard({.key = {}, .allow_origins = {}, .allow_hosts = {"Box.lan"}});
  for (const char* host : {"127.0.0.1", "127.0.0.1:7430", "localhost", "LOCALHOST:80", "[::1]:7430",
                           "192.168.1.7:7430", "app.localhost", "box.lan:7430", "BOX.LAN"}) {
    EXPECT_EQ(status(guard, {{"Host", host}}), 200u) << host;
  }
  // DNS rebinding needs a name.
  for (const char* host : {"", "evil.example", "evil.example:7430", "localhost.evil.example",
                           "127.0.0.1.evil.example", "notlocalhost", "[::1", "box.lan.evil"}) {
    EXPECT_EQ(status(guard, {{"Host", host}}), 403u) << host;
  }
  EXPECT_EQ(status(guard, {}), 403u);
}

TEST(ApiGuardTest, RefusesForeignOriginsUnlessAllowed) {
  const ApiGuard closed({});
  const ApiGuard guard({.key = {}, .allow_origins = {"https://chat.example"}, .allow_hosts = {}});
  const ApiGuard open({.key = {}, .allow_origins = {"*"}, .allow_hosts = {}});
  const auto from = [](const std::string& origin) {
    return Headers{{"Host", "localhost:7430"}, {"Origin", origin}};
  };
  EXPECT_EQ(status(closed, from("https://chat.example")), 403u);
  EXPECT_EQ(status(closed, from("http://localhost:7430")), 200u) << "our own page";
  EXPECT_EQ(status(closed, from("http://localhost:3000")), 403u);
  EXPECT_EQ(status(closed, from("null")), 403u);
  EXPECT_EQ(status(guard, from("https://chat.example")), 200u);
  EXPECT_EQ(status(guard, from("https://chat.example.evil")), 403u);
  EXPECT_EQ(status(guard, from("http://chat.example")), 403u);
  EXPECT_EQ(status(open, from("https://anything.example")), 200u);
  EXPECT_EQ(guard.headers(request(from("https://chat.example")))[0].second, "https://chat.example");
  EXPECT_TRUE(guard.headers(request(from("https://evil.example"))).empty());
}

TEST(ApiGuardTest, PreflightAllowsEveryMethodForAllowedOrigin) {
  const ApiGuard guard({.key = {}, .allow_origins = {"*"}, .allow_hosts = {}});
  const HttpAnswer answer = guard.preflight(
      request({{"Host", "localhost"}, {"Origin", "https://chat.example"}}, "OPTIONS"));
  EXPECT_EQ(answer.status, 204u);
  EXPECT_EQ(answer.headers[0].first, "Access-Control-Allow-Methods");
  for (const char* const method : {"GET", "POST", "PUT", "DELETE"}) {
    EXPECT_NE(answer.headers[0].second.find(method), std::string::npos) << method;
  }
}

// Behind a proxy with a certificate, the page's origin differs from the endpoint's own address.
TEST(ApiGuardTest, RequiresAllowingOwnOriginBehindProxy) {
  const Headers own{{"Host", "box.lan"}, {"Origin", "https://box.lan"}};
  EXPECT_EQ(status(ApiGuard({.key = {}, .allow_origins = {}, .allow_hosts = {"box.lan"}}), own),
            403u);
  EXPECT_EQ(
      status(
          ApiGuard({.key = {}, .allow_origins = {"https://box.lan"}, .allow_hosts = {"box.lan"}}),
          own),
      200u);
}

TEST(ApiGuardTest, RequiresKeyUnlessRouteIsExempt) {
  const ApiGuard guard({.key = "secret", .allow_origins = {"*"}, .allow_hosts = {}});
  const auto with = [](const char* name, const char* value) {
    return Headers{{"Host", "localhost"}, {name, value}};
  };
  EXPECT_EQ(status(guard, with("Authorization", "Bearer secret")), 200u);
  EXPECT_EQ(status(guard, with("authorization", "bearer secret")), 200u);
  EXPECT_EQ(status(guard, with("X-Api-Key", "secret")), 200u);
  for (const char* value :
       {"Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret", ""}) {
    EXPECT_EQ(status(guard, with("Authorization", value)), 401u) << value;
  }
  EXPECT_EQ(status(guard, {{"Host", "localhost"}}), 401u);
  EXPECT_EQ(status(guard, {{"Host", "localhost"}}, /*needs_key=*/false), 200u);
  // Browsers first ask without the key.
  EXPECT_FALSE(guard.refusal(
      request({{"Host", "localhost"}, {"Origin", "https://a.example"}}, "OPTIONS"), true));
  EXPECT_TRUE(guard.refusal(request({{"Host", "localhost"}}, "OPTIONS"), true));
}

// Any other spelling would be listed but never match.
TEST(ApiGuardTest, AcceptsOriginsOnlyAsBrowsersSendThem) {
  for (const char* origin :
       {"*", "null", "file://", "https://chat.example", "HTTPS://Chat.Example",
        "http://localhost:3000", "http://[::1]:8080", "http://[::1]", "https://chat.example:80",
        "tauri://localhost", "chrome-extension://abcdefghijklmnop"}) {
    EXPECT_TRUE(check_origin(origin)) << origin;
  }
  for (const char* origin : {"",
                             "foo",
                             "chat.example",
                             "https://",
                             "https://chat.example/",
                             "https://chat.example/page",
                             "https://chat.example?a",
                             "https://chat.example:",
                             "https://chat.example:443",
                             "http://chat.example:80",
                             "http://chat.example:0",
                             "http://chat.example:70000",
                             "http://chat.example:080",
                             "https://me@chat.example",
                             "https://*.example",
                             "https://müller.example",
                             "http://[chat]:80",
                             "http://[",
                             "://chat.example",
                             "https://a.example https://b.example"}) {
    const auto checked = check_origin(origin);
    ASSERT_FALSE(checked) << origin;
    EXPECT_NE(checked.error().message.find("SCHEME://HOST"), std::string::npos);
  }
}

TEST(ApiGuardTest, RefusesHostNamesWithSchemeOrPort) {
  for (const char* name : {"box.lan", "BOX", "host.docker.internal", "192.168.1.7"}) {
    EXPECT_TRUE(check_host_name(name)) << name;
  }
  for (const char* name : {"", "box.lan:7430", "http://box.lan", "box.lan/", "[::1]", "*.lan"}) {
    const auto checked = check_host_name(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_NE(checked.error().message.find("without scheme and port"), std::string::npos);
  }
}

TEST(KeptStreamsTest, AcceptsOnlyUnguessableNames) {
  EXPECT_TRUE(KeptStreams::is_name("123e4567-e89b-42d3-a456-426614174000"));
  EXPECT_TRUE(KeptStreams::is_name("0123456789abcdefABCDEF"));
  EXPECT_FALSE(KeptStreams::is_name("0123456789abcdefABCDE"));
  EXPECT_FALSE(KeptStreams::is_name(std::string(129, 'a')));
  EXPECT_FALSE(KeptStreams::is_name("0123456789abcdef ABCDEF"));
  // llama-server's page also appends a model's name.
  EXPECT_TRUE(KeptStreams::is_name("123e4567-e89b-42d3-a456-426614174000::org/model-1.5B:Q8_0"));
  EXPECT_FALSE(KeptStreams::is_name("0123456789abcdefABCDEF\r\nSet-Cookie: a"));
}

}  // namespace
}  // namespace edgedraft::client
