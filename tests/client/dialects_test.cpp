#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/client/local_server_rig.h"
#include "tests/support/demo_prompts.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;
using testing::chat_of;
using testing::HttpResult;
using testing::LocalServerTest;

constexpr const char* kQuestion = "What is 47 plus 38?";

// The data of a stream's events.
std::vector<json> named_events(const HttpResult& stream) {
  constexpr std::string_view kData = "data: ";
  std::vector<json> events;
  std::istringstream text(stream.body);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(kData)) events.push_back(json::parse(line.substr(kData.size())));
  }
  return events;
}

std::vector<json> lines_of(const HttpResult& stream) {
  std::vector<json> lines;
  std::istringstream text(stream.body);
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

class DialectsTest : public LocalServerTest {
 protected:
  std::string expected() { return text(chat_of(kQuestion)); }
  json weather() {
    return {{"type", "object"},
            {"properties", {{"city", {{"enum", {"Paris"}}}}}},
            {"required", {"city"}},
            {"additionalProperties", false}};
  }
};

TEST_F(DialectsTest, ResponsesEqualChatCompletions) {
  const json response = posted("/v1/responses", {{"input", kQuestion}});
  EXPECT_EQ(response["object"], "response") << response;
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], expected());
  EXPECT_GT(response["usage"]["output_tokens"], 0);
}

TEST_F(DialectsTest, ResponseEventsAddUpToResponse) {
  const auto events = named_events(post("/v1/responses", {{"input", kQuestion}, {"stream", true}}));
  ASSERT_GT(events.size(), 5u);
  EXPECT_EQ(events.front()["type"], "response.created");
  EXPECT_EQ(events.back()["type"], "response.completed");
  std::string text;
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    if (events[i]["type"] == "response.output_text.delta") text += events[i]["delta"];
  }
  EXPECT_EQ(text, expected());
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], text);
}

TEST_F(DialectsTest, ResponseContinuesPreviousOne) {
  const json first = posted("/v1/responses", {{"input", kQuestion}});
  const json second = posted("/v1/responses",
                             {{"input", "And 21 plus 34?"}, {"previous_response_id", first["id"]}});
  const json whole =
      chat({{"messages",
             {{{"role", "user"}, {"content", kQuestion}},
              {{"role", "assistant"}, {"content", first["output"][0]["content"][0]["text"]}},
              {{"role", "user"}, {"content", "And 21 plus 34?"}}}}});
  EXPECT_EQ(second["output"][0]["content"][0]["text"], whole["choices"][0]["message"]["content"]);
  const json unstored = posted("/v1/responses", {{"input", kQuestion}, {"store", false}});
  for (const json& id : {unstored["id"], json("resp_unknown")}) {
    EXPECT_EQ(refused("/v1/responses", {{"input", "Hi"}, {"previous_response_id", id}})["param"],
              "previous_response_id");
  }
}

TEST_F(DialectsTest, ResponsesCallFunctions) {
  const json tool = {{"type", "function"}, {"name", "weather"}, {"parameters", weather()}};
  const json fields = {{"input", "Weather?"}, {"tools", {tool}}, {"tool_choice", "required"}};
  const json response = posted("/v1/responses", fields);
  const json& call = response["output"].back();
  EXPECT_EQ(call["type"], "function_call") << response;
  EXPECT_EQ(json::parse(call["arguments"].get<std::string>()), json({{"city", "Paris"}}));
  const json output = {
      {"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "sunny"}};
  const json next = posted("/v1/responses", {{"input", {output}},
                                             {"previous_response_id", response["id"]},
                                             {"tools", {tool}},
                                             {"tool_choice", "none"}});
  EXPECT_EQ(next["status"], "completed") << next;
}

TEST_F(DialectsTest, MessagesEqualChatCompletions) {
  const json message =
      posted("/v1/messages",
             {{"max_tokens", 64}, {"messages", {{{"role", "user"}, {"content", kQuestion}}}}});
  EXPECT_EQ(message["type"], "message") << message;
  EXPECT_EQ(message["content"][0]["text"], expected());
  EXPECT_EQ(message["stop_reason"], "end_turn");
  EXPECT_GT(message["usage"]["input_tokens"], 0);
  const json counted = posted("/v1/messages/count_tokens",
                              {{"messages", {{{"role", "user"}, {"content", kQuestion}}}}});
  EXPECT_EQ(counted["input_tokens"], message["usage"]["input_tokens"]);
}

TEST_F(DialectsTest, MessageEventsAddUpToMessage) {
  const auto events = named_events(
      post("/v1/messages", {{"max_tokens", 64},
                            {"stream", true},
                            {"messages", {{{"role", "user"}, {"content", kQuestion}}}}}));
  std::string text;
  for (const json& event : events) {
    if (event["type"] == "content_block_delta") text += event["delta"]["text"];
  }
  ASSERT_GT(events.size(), 4u);
  EXPECT_EQ(text, expected());
  EXPECT_EQ(events.front()["type"], "message_start");
  EXPECT_EQ(events.back()["type"], "message_stop");
}

TEST_F(DialectsTest, MessagesCallToolsAndReadResults) {
  const json tools = {{{"name", "weather"}, {"input_schema", weather()}}};
  const json user = {{"role", "user"}, {"content", "Weather?"}};
  const json message = posted("/v1/messages", {{"max_tokens", 64},
                                               {"messages", {user}},
                                               {"tools", tools},
                                               {"tool_choice", {{"type", "any"}}}});
  EXPECT_EQ(message["stop_reason"], "tool_use") << message;
  const auto events = named_events(post("/v1/messages", {{"max_tokens", 64},
                                                         {"stream", true},
                                                         {"messages", {user}},
                                                         {"tools", tools},
                                                         {"tool_choice", {{"type", "any"}}}}));
  ASSERT_GT(events.size(), 2u);
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], "tool_use");
  const json& call = message["content"].back();
  EXPECT_EQ(call["input"], json({{"city", "Paris"}}));
  const json result = {{"type", "tool_result"}, {"tool_use_id", call["id"]}, {"content", "sunny"}};
  const json next =
      posted("/v1/messages", {{"max_tokens", 8},
                              {"messages",
                               {user,
                                {{"role", "assistant"}, {"content", message["content"]}},
                                {{"role", "user"}, {"content", {result}}}}}});
  EXPECT_EQ(next["type"], "message") << next;
}

TEST_F(DialectsTest, OllamaLinesAddUpToAnswer) {
  const json request = {{"model", "test"},
                        {"messages", {{{"role", "user"}, {"content", kQuestion}}}}};
  const HttpResult stream = post("/api/chat", request);
  EXPECT_EQ(stream.header("content-type"), "application/x-ndjson");
  std::string text;
  const auto lines = lines_of(stream);
  for (const json& line : lines) text += line["message"]["content"];
  EXPECT_EQ(text, expected());
  EXPECT_EQ(lines.back()["done_reason"], "stop");
  const json whole = posted("/api/generate", {{"prompt", kQuestion}, {"stream", false}});
  EXPECT_EQ(whole["response"], text);
  EXPECT_EQ(posted("/api/chat", {{"model", "test"}})["done_reason"], "load");
  EXPECT_EQ(page("/api/tags")["models"][0]["name"], "test");
  EXPECT_EQ(posted("/api/show", {{"model", "test"}})["capabilities"][0], "completion");
}

TEST_F(DialectsTest, OllamaLimitsLengthAndFormat) {
  const json answer =
      posted("/api/chat", {{"messages", {{{"role", "user"}, {"content", "Weather?"}}}},
                           {"format", weather()},
                           {"stream", false}});
  EXPECT_EQ(json::parse(answer["message"]["content"].get<std::string>()),
            json({{"city", "Paris"}}));
  const json cut =
      posted("/api/generate",
             {{"prompt", testing::kStory}, {"options", {{"num_predict", 3}}}, {"stream", false}});
  EXPECT_EQ(cut["eval_count"], 3);
  EXPECT_EQ(cut["done_reason"], "length");
}

TEST_F(DialectsTest, ErrorsHaveShapeOfTheirApi) {
  EXPECT_EQ(posted("/api/chat", {{"messages", 3}})["error"],
            "'messages': expected an array of messages");
  EXPECT_TRUE(page("/api/unknown")["error"].is_string());
  const json message = posted("/v1/messages", {{"messages", {{{"role", "tool"}}}}});
  EXPECT_EQ(message["type"], "error");
  EXPECT_EQ(message["error"]["type"], "invalid_request_error");
  // Fields have the names of the client's API.
  EXPECT_EQ(refused("/v1/responses", {{"input", "Hi"}, {"max_output_tokens", 0}})["param"],
            "max_output_tokens");
  EXPECT_EQ(refused("/v1/embeddings", {{"input", "Hi"}}, 501)["code"], "unsupported_endpoint");
  EXPECT_EQ(refused("/v1/responses", {{"input", {{{"type", "input_image"}}}}})["param"],
            "input[0]");
}

TEST_F(DialectsTest, RefusesPrivacyThatTranslationWouldLose) {
  const json item = {{"role", "user"}, {"content", "Anna"}, {"x_private", true}};
  EXPECT_EQ(refused("/v1/responses", {{"input", {item}}})["param"], "x_private");
  EXPECT_EQ(
      posted("/api/chat", {{"messages", {item}}})["error"].get<std::string>().find("'x_private'"),
      0u);
}

// Marked text reaches no message in any API.
TEST_F(DialectsTest, MarkedTextStaysOnDevice) {
  start({.privacy = {.mode = PrivateMode::mask}});
  const std::string text = "My name is <private>Zyxkowal</private>.";
  EXPECT_EQ(post("/v1/responses", {{"instructions", text}, {"input", text}}).status, 200u);
  EXPECT_EQ(post("/v1/messages",
                 {{"system", text}, {"messages", {{{"role", "user"}, {"content", text}}}}})
                .status,
            200u);
  EXPECT_EQ(post("/api/generate", {{"system", text}, {"prompt", text}}).status, 200u);
  const std::string sent = page("/v1/edgedraft/uplink").dump();
  EXPECT_NE(sent, page("/v1/models").dump());
  EXPECT_EQ(sent.find("Zyxkowal"), std::string::npos);
  EXPECT_NE(sent.find("TEXT_001"), std::string::npos);
}

}  // namespace
}  // namespace edgedraft::client
