#include <gtest/gtest.h>

#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/local_server_rig.h"
#include "tests/net/raw_peer.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"

// The local API's pages beside answers, its refusals, and its error messages.
namespace edgedraft::client {
namespace {

using nlohmann::json;
using testing::ask;
using testing::chat_of;
using testing::event_data;
using testing::HttpResult;
using testing::kStory;
using testing::text_of;

class LocalPagesTest : public testing::LocalServerTest {};

TEST_F(LocalPagesTest, ServesPagesBesidesCompletions) {
  EXPECT_EQ(page("/v1/models")["data"][0]["id"], "test");
  EXPECT_EQ(page("/health")["status"], "ok");
  EXPECT_EQ(page("/props")["total_slots"], 8);
  const json tokens = posted("/tokenize", {{"content", "A dog."}})["tokens"];
  EXPECT_EQ(tokens, json(bundle_.tokenizer().encode("A dog.", Special::plain)));
  EXPECT_EQ(posted("/detokenize", {{"tokens", tokens}})["content"], "A dog.");
  EXPECT_EQ(post("/detokenize", {{"tokens", {1u << 30}}}).status, 400u);
  const json pieces = posted("/tokenize", {{"content", "A dog."}, {"with_pieces", true}})["tokens"];
  EXPECT_EQ(pieces.size(), tokens.size());
  EXPECT_EQ(pieces[0]["id"], tokens[0]);
  json large = {{"content", std::string(300'000, 'a')}};
  EXPECT_EQ(post("/tokenize", large).status, 200u);
  large["with_pieces"] = true;
  // The reply would be a hundred times larger.
  EXPECT_EQ(refused("/tokenize", large)["param"], "content");
  const json prompt = posted("/apply-template", chat_of("Hi"));
  EXPECT_NE(prompt["prompt"].get<std::string>().find("Hi"), std::string::npos);
  EXPECT_EQ(get("/nothing").status, 404u);
  const HttpResult wrong = ask(api_->port(), {.method = "PUT", .path = "/v1/stream"});
  EXPECT_EQ(wrong.status, 405u);
  EXPECT_EQ(wrong.header("Allow"), "GET, DELETE");
  EXPECT_EQ(json::parse(wrong.body)["error"]["code"], "method_not_allowed");
}

TEST_F(LocalPagesTest, FindsModelByName) {
  const json listed = page("/v1/models")["data"][0];
  for (const char* const path : {"/v1/models/test", "/models/test", "/v1/models/t%65st"}) {
    const HttpResult model = get(path);
    EXPECT_EQ(model.status, 200u) << path;
    EXPECT_EQ(json::parse(model.body), listed) << path;
  }
  for (const char* const path : {"/v1/models/gpt-4", "/models/a/test", "/v1/models/test/"}) {
    const HttpResult other = get(path);
    EXPECT_EQ(other.status, 404u) << path;
    EXPECT_EQ(json::parse(other.body)["error"]["code"], "model_not_found") << path;
  }
  EXPECT_EQ(page("/v1/models/")["error"]["code"], "unknown_url");
  const HttpResult wrong = remove("/v1/models/test");
  EXPECT_EQ(wrong.status, 405u);
  EXPECT_EQ(wrong.header("Allow"), "GET");
}

TEST_F(LocalPagesTest, PageIsBoundToOriginAndStoresConversations) {
  const HttpResult start_page = get("/");
  EXPECT_EQ(start_page.status, 200u);
  EXPECT_EQ(start_page.header("Content-Type"), "text/html; charset=utf-8");
  const std::string policy = start_page.header("Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'; script-src 'self';"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(start_page.body.find("http"), std::string::npos)
      << "the page loads nothing from other hosts";
  EXPECT_EQ(get("/page/main.js").header("Content-Type"), "text/javascript; charset=utf-8");

  std::string path = "/v1/edgedraft/conversation?id=5f0c2f7e-8a64-4b61-9d3e-0d9a4f2d9b11";
  const auto put = [&](const json& body) {
    return ask(api_->port(), {.method = "PUT", .path = path, .body = body.dump()}).status;
  };
  EXPECT_EQ(get(path).status, 404u);
  EXPECT_EQ(put({{"title", "A dog"}, {"document", {{"turns", {1, 2}}}}}), 200u);
  EXPECT_EQ(page(path), json({{"turns", {1, 2}}}));
  const json list = page("/v1/edgedraft/conversations")["data"];
  EXPECT_EQ(list[0]["title"], "A dog");
  EXPECT_EQ(put({{"title", "A dog"}}), 400u) << "no document";
  EXPECT_EQ(put({{"title", std::string(2000, 'x')}, {"document", json::object()}}), 400u);
  EXPECT_EQ(remove(path).status, 200u);
  EXPECT_EQ(remove(path).status, 404u);
  EXPECT_EQ(put({{"title", "A dog"}, {"document", json::object()}}), 410u)
      << "a tab still has the deleted conversation open";
  EXPECT_EQ(get(path).status, 404u);
  path = "/v1/edgedraft/conversation?id=5f0c2f7e-8a64-4b61-9d3e-0d9a4f2d9b12";
  EXPECT_EQ(get("/v1/edgedraft/conversation?id=x").status, 400u);

  const json shown = posted("/v1/edgedraft/preview", chat_of("I am <private>Ann</private>."));
  EXPECT_EQ(shown["messages"][0]["content"], "I am [TEXT_001].");
  EXPECT_EQ(shown["private"]["text"], 1);
  const auto stays = [&](const std::string& text) {
    const json body = chat_of(text, {{"private", "local"}});
    return posted("/v1/edgedraft/preview", body)["is_local"].get<bool>();
  };
  EXPECT_TRUE(stays("I am <private>Ann</private>."));
  EXPECT_FALSE(stays("I am Ann.")) << "a preview stores no value: its text may be half typed";
  chat(chat_of("I am <private>Ann</private>.", {{"max_tokens", 1}}));
  EXPECT_TRUE(stays("I am Ann."));

  const auto is_private = [&] { return page("/v1/edgedraft/conversations")["data"][0]["private"]; };
  const auto turn_of = [](const std::string& text, const std::string& mode = "") {
    return json{{"title", "A"}, {"document", {{"turns", {{{"content", text}}}}, {"mode", mode}}}};
  };
  EXPECT_EQ(put(turn_of("I am Bob.")), 200u);
  EXPECT_EQ(is_private(), false);
  EXPECT_EQ(put(turn_of("I am ann.")), 200u);
  EXPECT_EQ(is_private(), true) << "marked in an earlier request";
  for (const PrivateMode own : {PrivateMode::mask, PrivateMode::off}) {
    start({.privacy = {.mode = own, .detects = {PrivateType::mail}, .names = {"Annabel Quist"}}});
    for (const auto& [mode, found] : {std::pair("", own == PrivateMode::mask),
                                      {"mask", true},
                                      {"local", true},
                                      {"off", false}}) {
      EXPECT_EQ(put(turn_of("Write to zoe@lee.org.", mode)), 200u);
      EXPECT_EQ(is_private(), found) << "conversation with mode '" << mode << "'";
      EXPECT_EQ(put(turn_of("Write to Annabel Quist.", mode)), 200u);
      EXPECT_EQ(is_private(), true) << "known value, conversation with mode '" << mode << "'";
    }
  }

  start({.page = false});
  EXPECT_EQ(get("/").status, 404u);
  EXPECT_EQ(get("/v1/edgedraft/conversations").status, 404u);
}

TEST_F(LocalPagesTest, IgnoresPageIdsWhenDetectingPrivateConversations) {
  start({.privacy = {.detects = {PrivateType::key, PrivateType::card}}});
  const auto is_private = [&](const json& document) {
    const std::string path = "/v1/edgedraft/conversation?id=5f0c2f7e-8a64-4b61-9d3e-0d9a4f2d9b11";
    const json body = {{"title", "A"}, {"document", document}};
    EXPECT_EQ(ask(api_->port(), {.method = "PUT", .path = path, .body = body.dump()}).status, 200u);
    return page("/v1/edgedraft/conversations")["data"][0]["private"].get<bool>();
  };
  constexpr std::uint64_t kCard = 4111111111111111;
  const std::string name = "9f86d081884c7d659a2feaa0c55ad015";
  EXPECT_FALSE(is_private({{"turns",
                            {{{"role", "user"}, {"content", "Hi"}},
                             {{"role", "assistant"}, {"stream", name}, {"private", false}}}}}))
      << "an answer in progress";
  EXPECT_FALSE(is_private({{"turns", {{{"answer", {{"counts", {{"bytes_up", kCard}}}}}}}}}));
  EXPECT_TRUE(is_private({{"turns", {{{"content", name}}}}}));
  EXPECT_TRUE(is_private({{"stream", name}}));
  EXPECT_TRUE(is_private({{"card", kCard}}));
  EXPECT_TRUE(is_private({{"turns", {{{"stream", kCard}}}}}));
  EXPECT_TRUE(is_private({{"turns", {{{std::to_string(kCard), "a key"}}}}}));
  EXPECT_TRUE(is_private({{"card", {"4111 1111 ", "1111 1111"}}}));
}

TEST_F(LocalPagesTest, StoresAnswerThatEndsAfterPageCloses) {
  const std::string path = "/v1/edgedraft/conversation?id=5f0c2f7e-8a64-4b61-9d3e-0d9a4f2d9b11";
  const std::string stream = "9f86d081884c7d659a2feaa0c55ad015";
  const json turns{{{"role", "user"}, {"content", "Hi"}},
                   {{"role", "assistant"}, {"stream", stream}, {"private", false}}};
  const json saved{{"title", "A"}, {"document", {{"turns", turns}, {"mode", ""}}}};
  EXPECT_EQ(ask(api_->port(), {.method = "PUT", .path = path, .body = saved.dump()}).status, 200u);
  const HttpResult events =
      ask(api_->port(), {.method = "POST",
                         .path = "/v1/chat/completions",
                         .headers = {{"X-Conversation-Id", stream}},
                         .body = chat_of("Hi", {{"stream", true}, {"max_tokens", 8}}).dump()});
  EXPECT_EQ(events.status, 200u);
  const json kept = page(path)["turns"];
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_FALSE(kept[1].contains("stream"));
  EXPECT_EQ(kept[1]["answer"]["counts"]["tokens"], 8);
  const std::string text = kept[1]["answer"]["text"];
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(kept[1]["answer"]["confirmed"], text.size());
  EXPECT_EQ(page("/v1/edgedraft/conversations")["data"][0]["title"], "A");
}

TEST_F(LocalPagesTest, RefusesInvalidRequestsInOpenAiFormat) {
  const json error = refused("/v1/chat/completions", chat_of("Hi", {{"temperature", "x"}}));
  EXPECT_EQ(error["param"], "temperature");
  EXPECT_EQ(error["type"], "invalid_request_error");
  // A prompt beyond every context.
  std::string many;
  for (int i = 0; i < 9000; ++i) many += "dog ";
  EXPECT_EQ(refused("/v1/chat/completions", chat_of(many))["code"], "context_length_exceeded");
  const json huge = {{"x", std::string(17u << 20, 'y')}};
  EXPECT_FALSE(refused("/v1/chat/completions", huge, 413).is_null());
  const std::string levels(500'000, '[');
  std::string members;
  for (int i = 0; i < 100'000; ++i) members += "\"" + std::to_string(i) + "\":0,";
  for (const char* const path : {"/v1/chat/completions", "/tokenize", "/v1/edgedraft/preview"}) {
    for (const std::string& body :
         {"{\"x\":" + levels + std::string(levels.size(), ']') + "}", "{" + members + "\"x\":0}"}) {
      const HttpResult unwieldy = ask(api_->port(), {.method = "POST", .path = path, .body = body});
      EXPECT_EQ(unwieldy.status, 400u) << path;
      EXPECT_EQ(json::parse(unwieldy.body)["error"]["code"], "invalid_json");
    }
  }
  EXPECT_FALSE(text(chat_of("Hi")).empty()) << "later requests are still answered";
}

TEST_F(LocalPagesTest, InternalFailureEndsOnlyItsAnswer) {
  start({.conversations = 1, .outcomes_fail = true});
  json body = chat_of(kStory, {{"max_tokens", 10}});
  const std::string message = refused("/v1/chat/completions", body, 500)["message"];
  EXPECT_TRUE(contains(message, std::bad_alloc().what()));
  body["stream"] = true;
  const auto data = event_data(post("/v1/chat/completions", body).body);
  ASSERT_GT(data.size(), 1u);
  EXPECT_EQ(json::parse(data.back())["error"]["code"], "io") << data.back();
  EXPECT_EQ(metric("requests_processing"), 0.0);
  api_.reset();
  EXPECT_EQ(failures_, 2u);
}

TEST_F(LocalPagesTest, EveryRouteStatesAccessAndBodyLimit) {
  start({.key = "secret"});
  const auto routes = ApiService::route_budgets();
  ASSERT_GT(routes.size(), 20u);
  for (const ApiService::RouteBudget& route : routes) {
    const std::string line = std::string(route.method) + ' ' + std::string(route.path);
    const bool takes_body = route.method == "POST" || route.method == "PUT";
    EXPECT_EQ(route.body_bytes_max > 0, takes_body) << line;
    EXPECT_LE(route.body_bytes_max, 16u << 20) << line;
    const bool is_open = route.access == ApiService::Access::open;
    EXPECT_FALSE(is_open && takes_body) << line;
    // Strangers get an answer before they send the body that they announce.
    RawPeer stranger(api_->port());
    stranger.write(line + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n");
    const std::string answer = text_of(stranger.read_some());
    EXPECT_TRUE(answer.starts_with(is_open ? "HTTP/1.1 200 " : "HTTP/1.1 401 ")) << line << answer;
  }
}

TEST_F(LocalPagesTest, RequiresKeyForEveryPageButHealth) {
  start({.key = "secret"});
  for (const char* path : {"/v1/models", "/v1/models/test", "/metrics", "/props",
                           "/v1/stream?conv_id=x", "/nothing"}) {
    EXPECT_EQ(get(path).status, 401u) << path;
  }
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize",
                           "/apply-template", "/v1/streams/lookup"}) {
    EXPECT_EQ(post(path, json::object()).status, 401u) << path;
  }
  EXPECT_EQ(get("/health").status, 200u);
  // The key is checked before the body is read.
  RawPeer stranger(api_->port());
  stranger.write(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n");
  EXPECT_TRUE(text_of(stranger.read_to_end()).starts_with("HTTP/1.1 401 "));
  EXPECT_EQ(
      ask(api_->port(), {.path = "/v1/models", .headers = {{"Authorization", "Bearer secret"}}})
          .status,
      200u);
}

}  // namespace
}  // namespace edgedraft::client
