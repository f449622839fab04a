#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "client/privacy/uplink_record.h"
#include "tests/client/local_server_rig.h"
#include "tests/net/raw_peer.h"
#include "tests/support/demo_prompts.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::chat_of;
using testing::events_of;
using testing::HttpResult;
using testing::kStory;
using testing::LocalServerTest;
using testing::raw_chat;

class PrivacyTest : public LocalServerTest {
 protected:
  // All bytes that a newly started program sent for it, except Hellos.
  Bytes sent_for(const json& body, bool drafts = true, const Setting& setting = {}) {
    return sent_by([&] { answer_ = chat(body)["choices"][0]; }, drafts, setting);
  }
  Bytes sent_by(const std::function<void()>& ask, bool drafts, Setting setting = {}) {
    api_.reset();
    const std::uint64_t last = last_sent();
    // A drafter's trees depend on when activations arrive, and a run's credit on verdicts.
    setting.plain = !drafts;
    setting.privacy = {.detects = {PrivateType::mail}};
    start(setting);
    ask();
    std::map<std::uint64_t, Bytes> by_connection;
    for (const UplinkRecord::Message& message : uplink_.since(last)) {
      if (to_json(message, bundle_.tokenizer())["kind"] == "hello") continue;
      Bytes& sent = by_connection[message.connection];
      sent.insert(sent.end(), message.frame.begin(), message.frame.end());
    }
    // The order among connections is random.
    std::multiset<Bytes> sorted;
    for (auto& [connection, sent] : by_connection) sorted.insert(std::move(sent));
    Bytes sent;
    for (const Bytes& one : sorted) sent.insert(sent.end(), one.begin(), one.end());
    return sent;
  }
  // The messages after that one, as the uplink page shows them.
  std::vector<json> shown_since(std::uint64_t last) const {
    std::vector<json> shown;
    for (const UplinkRecord::Message& message : uplink_.since(last)) {
      shown.push_back(to_json(message, bundle_.tokenizer()));
    }
    return shown;
  }
  // Number of the last request sent; 0: none yet.
  std::uint64_t last_sent() const {
    const auto sent = uplink_.since(0);
    return sent.empty() ? 0 : sent.back().number;
  }
  // Begins a long answer that stays here, as the kept stream `id`. Returns its text so far.
  std::string begun_here(RawPeer& peer, const std::string& id) {
    const std::string body = chat_of("Tell me a story about a dog and a <private>ball</private>.",
                                     {{"private", "local"}, {"stream", true}, {"max_tokens", 900}})
                                 .dump();
    peer.write(raw_chat(body, "X-Conversation-Id: " + id + "\r\n"));
    std::string told;
    for (std::string raw; told.size() < 60;) {
      const std::string more = testing::text_of(peer.read_some());
      EXPECT_FALSE(more.empty()) << raw;
      if (more.empty()) break;
      raw += more;
      told.clear();
      for (std::size_t at = raw.find("data: {"); at != std::string::npos;
           at = raw.find("data: {", at + 1)) {
        const json event =
            json::parse(raw.substr(at + 6, raw.find('\n', at) - at - 6), nullptr, false);
        if (event.is_discarded()) continue;
        told += event["choices"][0]["delta"].value("content", "");
      }
    }
    return told;
  }
  json answer_;
};

// Equal byte for byte to what other text sends, and empty for text that stays here.
TEST_F(PrivacyTest, SentBytesDoNotDependOnPrivateText) {
  const std::string values[] = {"Ann",
                                "",
                                "</private>",
                                "zoe@lee.org",
                                "日本 \"quoted\"",
                                "[INST] <|im_start|>",
                                std::string(50'000, 'y'),
                                "e\u0301\u0301"};
  for (const std::string mode : {"mask", "local", "prefix"}) {
    std::optional<Bytes> expected;
    for (const std::string& value : values) {
      const json parts = {{{"type", "text"}, {"text", "Tell me a story about "}},
                          {{"type", "text"}, {"text", value}, {"x_private", true}},
                          {{"type", "text"}, {"text", " and a ball."}}};
      const json body = {{"messages", {{{"role", "user"}, {"content", parts}}}},
                         {"private", mode},
                         {"seed", 1},
                         {"max_tokens", 30}};
      const bool stays = mode != "mask";
      const bool is_answered = !stays || value.size() < bundle_.context_count();
      const auto too_long = [&] { EXPECT_EQ(post("/v1/chat/completions", body).status, 400u); };
      const Setting setting{.writes_alone = mode == "local"};
      const Bytes sent =
          is_answered ? sent_for(body, stays, setting) : sent_by(too_long, stays, setting);
      if (!expected) expected = sent;
      EXPECT_EQ(sent, *expected) << mode << ", " << value.substr(0, 20);
    }
    EXPECT_EQ(expected->empty(), mode == "local");
    EXPECT_TRUE(answer_["x_edgedraft"].contains("private"));
  }
}

// Only the text before the first private text leaves: not the stops, the sampling options or the
// rest of the conversation.
TEST_F(PrivacyTest, PrefixSendsOnlyTextBeforePrivateText) {
  const auto sent_texts = [&](std::uint64_t since) {
    std::string texts;
    for (const json& shown : shown_since(since)) {
      if (shown["kind"] != "hello") texts += shown.value("text", "") + '|';
    }
    return texts;
  };
  const json body = {
      {"messages",
       {{{"role", "user"}, {"content", "Tell me a story about a dog and <private>Zeb</private>."}},
        {{"role", "assistant"}, {"content", "Qqqq."}},
        {{"role", "user"}, {"content", "Wwww?"}}}},
      {"private", "prefix"},
      {"stop", {"Zeb", "Xxxx"}},
      {"seed", 5},
      {"temperature", 1},
      {"max_tokens", 40}};
  sent_for(body);
  EXPECT_EQ(answer_["x_edgedraft"]["private"], "local");
  EXPECT_EQ(answer_["x_edgedraft"]["target_passes"], 1);
  const std::string left = sent_texts(0);
  EXPECT_TRUE(left.ends_with("a dog and |")) << left;
  for (const char* const word : {"Zeb", "Qqqq", "Wwww", "Xxxx", "TEXT"}) {
    EXPECT_EQ(left.find(word), std::string::npos) << word;
  }
  // Text that the device wrote stays here even unmarked. The server has already read the text
  // before it.
  const std::uint64_t before = last_sent();
  json again = body;
  again["messages"].push_back(answer_["message"]);
  again["messages"].push_back({{"role", "user"}, {"content", "Go on."}});
  EXPECT_EQ(chat(again)["choices"][0]["x_edgedraft"]["private"], "local");
  EXPECT_EQ(sent_texts(before), "");

  const json preview = posted("/v1/edgedraft/preview", again);
  EXPECT_EQ(preview["messages"],
            json::parse(R"([{"role": "user", "content": "Tell me a story about a dog and "}])"));
}

// A reader's lag depends on the length of restored values. The server must not learn it from a cut
// answer or a dropped connection.
TEST_F(PrivacyTest, StalledReaderDoesNotChangeSentBytes) {
  std::optional<Bytes> expected;
  for (const std::size_t size : {5u, 200'000u}) {
    const std::string value(size, 'v');
    const json body = {
        {"messages", {{{"role", "user"}, {"content", "<private>" + value + "</private>"}}}},
        {"response_format",
         {{"type", "json_schema"},
          {"json_schema", {{"schema", {{"const", json::array_t(15, value)}}}}}}},
        {"n", 8},
        {"max_tokens", 100},
        {"seed", 1},
        {"stream", true}};
    const Bytes sent = sent_by(
        [&] {
          RawPeer peer(api_->port());
          peer.write(raw_chat(body.dump()));
          const Instant deadline = Clock::now() + 30s;
          const auto is_over = [&] { return metric("answers_total") >= 8.0; };
          while (!is_over() && Clock::now() < deadline) std::this_thread::sleep_for(5ms);
          EXPECT_TRUE(is_over()) << size;
        },
        /*drafts=*/false, {.pass_pace = 5ms, .stall_timeout = 100ms});
    if (!expected) expected = sent;
    EXPECT_EQ(sent, *expected) << size;
  }
}

// Clients resend text without marks, cut, quoted, or for a title.
TEST_F(PrivacyTest, KeepsValuesPrivateInLaterRequests) {
  sent_for(chat_of("I am <private>Annabel Quist</private>, aq@quist.org. Tell me a story."));
  const std::uint64_t before = last_sent();
  const json requests[] = {
      {{"messages",
        {{{"role", "user"}, {"content", "I am Annabel Quist, aq@quist.org. Tell me a story."}},
         {{"role", "assistant"}, {"content", "Once ANNABEL\n> quist ..."}},
         {{"role", "tool"}, {"tool_call_id", "x"}, {"content", "{\"to\": \"aq@quist.org\"}"}},
         {{"role", "user"}, {"content", "Go on."}}}},
       {"max_tokens", 5}},
      {{"messages", {{{"role", "user"}, {"content", "A title for: I am annabel quist"}}}},
       {"stop", {"Annabel Quist"}},
       {"max_tokens", 5}},
      chat_of("Who?", {{"max_tokens", 40},
                       {"response_format",
                        {{"type", "json_schema"},
                         {"json_schema", {{"schema", {{"enum", {"Annabel Quist"}}}}}}}}}),
  };
  for (const json& request : requests) chat(request);
  EXPECT_EQ(text(requests[2]), "\"Annabel Quist\"") << "the value replaces its placeholder";
  std::size_t looked_at = 0;
  for (const json& message : shown_since(before)) {
    const std::string shown = message.dump();
    for (const char* const word : {"nnabel", "NNABEL", "uist"}) {
      EXPECT_EQ(shown.find(word), std::string::npos) << shown;
    }
    looked_at += shown.find("TEXT_001") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(looked_at, 3u);
}

// Covers every field in which a client may return an answer.
TEST_F(PrivacyTest, MasksOrRefusesPrivateTextInEveryField) {
  sent_for(chat_of("I am <private>Annabel Quist</private>.", {{"max_tokens", 5}}));
  const std::uint64_t before = last_sent();
  const auto schema_of = [](const json& schema) {
    return json{
        {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}}},
        {"max_tokens", 40}};
  };
  const json part = {{"type", "text"}, {"text", "I am Annabel "}};
  const json rest = {{"type", "text"}, {"text", "Quist."}};
  const json masked[] = {
      {{"messages", {{{"role", "user"}, {"content", {part, rest}}}}}, {"max_tokens", 5}},
      chat_of("Who?", schema_of({{"type", "object"},
                                 {"properties", {{"type", {{"const", "Annabel Quist"}}}}},
                                 {"required", {"type"}}})),
      chat_of("Who?", schema_of({{"const", {{"a", "Annabel Quist"}}}})),
      chat_of("Who?", {{"grammar", "root ::= \"Annabel Quist\""}, {"max_tokens", 40}}),
  };
  for (const json& request : masked) chat(request);
  const json call = {
      {"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
  const auto history_of = [&](json with) {
    json history = chat_of("Go on.");
    json result = {{"role", "tool"}, {"tool_call_id", with["id"]}, {"content", "done"}};
    history["messages"].push_back({{"role", "assistant"}, {"tool_calls", {std::move(with)}}});
    history["messages"].push_back(std::move(result));
    return history;
  };
  json named = call;
  named["function"]["name"] = "Annabel Quist";
  json numbered = call;
  numbered["id"] = "annabel quist";
  const json named_requests[] = {
      history_of(named), history_of(numbered),
      chat_of("Who?", schema_of({{"const", {{"type", "Annabel Quist"}}}})),
      chat_of("Who?", schema_of({{"type", "object"}, {"required", {"Annabel Quist"}}}))};
  for (const json& request : named_requests) {
    EXPECT_EQ(refused("/v1/chat/completions", request)["code"], "private_name") << request;
  }
  std::size_t looked_at = 0;
  for (const json& told : shown_since(before)) {
    const std::string shown = told.dump();
    EXPECT_EQ(shown.find("nnabel"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("uist"), std::string::npos) << shown;
    looked_at += told["kind"] != "hello" ? 1 : 0;
  }
  EXPECT_GE(looked_at, std::size(masked)) << "each masked request reaches the server";
}

// It cannot be masked, and would precede the first placeholder.
TEST_F(PrivacyTest, PrefixKeepsRequestWithPrivateNameLocal) {
  sent_for(chat_of("I am <private>Annabel Quist</private>.", {{"max_tokens", 5}}), true,
           {.writes_alone = true});
  const std::uint64_t before = last_sent();
  json body = chat_of("Tally the votes.", {{"private", "prefix"}, {"max_tokens", 5}});
  body["messages"].push_back(
      {{"role", "assistant"},
       {"tool_calls",
        {{{"id", "a"},
          {"type", "function"},
          {"function", {{"name", "Annabel Quist"}, {"arguments", R"({"votes": 3})"}}}}}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "a"}, {"content", "done"}});
  body["messages"].push_back({{"role", "user"}, {"content", "And Annabel Quist?"}});
  EXPECT_EQ(chat(body)["choices"][0]["x_edgedraft"]["private"], "local");
  for (const json& shown : shown_since(before)) {
    // The end of the previous answer may leave late.
    EXPECT_TRUE(shown["kind"] == "hello" || shown["kind"] == "cancel") << shown;
  }
}

// Text that a program acts on keeps placeholders unless the request asks otherwise.
TEST_F(PrivacyTest, RestoresToolArgumentsIfRequestAllows) {
  const std::string value = "Ann \"Q\" Lee";
  json body = chat_of("Write to <private>" + value + "</private>.",
                      {{"tool_choice", "required"}, {"max_tokens", 60}});
  body["tools"] = {{{"type", "function"},
                    {"function",
                     {{"name", "write"},
                      {"parameters",
                       {{"type", "object"},
                        {"properties", {{"to", {{"const", value}}}}},
                        {"required", {"to"}}}}}}}};
  const auto call_of = [&] {
    json whole = chat(body)["choices"][0]["message"]["tool_calls"][0];
    json streamed = body;
    streamed["stream"] = true;
    for (json& event : events_of(post("/v1/chat/completions", streamed))) {
      json& delta = event["choices"][0]["delta"];
      if (!delta.contains("tool_calls")) continue;
      EXPECT_EQ(delta["tool_calls"][0]["function"], whole["function"]);
      EXPECT_EQ(delta["tool_calls"][0].value("x_restored", false),
                whole.value("x_restored", false));
    }
    return whole;
  };
  const json masked = call_of();
  EXPECT_EQ(json::parse(masked["function"]["arguments"].get<std::string>()),
            json({{"to", "[TEXT_001]"}}));
  EXPECT_FALSE(masked.contains("x_restored"));
  body["restore_tool_arguments"] = true;
  const json restored = call_of();
  EXPECT_EQ(json::parse(restored["function"]["arguments"].get<std::string>()),
            json({{"to", value}}));
  EXPECT_EQ(restored["x_restored"], true);
}

// Values are escaped in JSON, but not in the text before it.
TEST_F(PrivacyTest, EchoesPromptUnescapedBeforeJsonAnswer) {
  const std::string value = "Ann \"Q\" Lee";
  const json body = {{"prompt", "Say <private>" + value + "</private> again. "},
                     {"echo", true},
                     {"json_schema", {{"const", value}}},
                     {"max_tokens", 60}};
  const std::string text = posted("/v1/completions", body)["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, "Say " + value + " again. " + json(value).dump());
}

// A hostile server ends its answer within a link, and would get the value on continuing.
TEST_F(PrivacyTest, RestoresNoValueInLinkBegunByPrompt) {
  const std::string link = "![x](https://evil/?q=";
  const json fields = {{"grammar", "root ::= \"Annabel Quist)\""}, {"max_tokens", 40}};
  json begun = chat_of("I am <private>Annabel Quist</private>.", fields);
  begun["messages"].push_back({{"role", "assistant"}, {"content", link}});
  json echoed = fields;
  echoed["prompt"] = "I am <private>Annabel Quist</private>. " + link;
  echoed["echo"] = true;
  const std::string stays = "[TEXT_001])";
  const std::string prompt = "I am Annabel Quist. " + link;
  for (const bool streams : {false, true}) {
    begun["stream"] = echoed["stream"] = streams;
    const auto said = [&](const std::string& path, const json& body) {
      const HttpResult result = post(path, body);
      std::string text;
      for (json& event :
           streams ? events_of(result) : std::vector<json>{json::parse(result.body)}) {
        json& choice = event["choices"][0];
        text += choice.contains("text")
                    ? choice["text"].get<std::string>()
                    : choice[streams ? "delta" : "message"].value("content", "");
      }
      return text;
    };
    EXPECT_EQ(said("/v1/chat/completions", begun), stays) << streams;
    EXPECT_EQ(said("/v1/completions", echoed), prompt + stays) << streams;
  }
}

// Private text must not decide which connection a conversation gets, or the server could learn that
// it repeats text of another.
TEST_F(PrivacyTest, PrivateTextDoesNotReuseOtherConversations) {
  start({.writes_alone = true});
  json history = chat_of(kStory, {{"max_tokens", 8}});
  history["messages"].push_back(chat(history)["choices"][0]["message"]);
  for (const char* const mode : {"local", "prefix"}) {
    for (const std::string& value : {std::string(kStory), std::string("Qqqq wwww.")}) {
      json whole = history;
      whole["private"] = mode;
      whole["messages"][0]["content"] = {{{"type", "text"}, {"text", value}, {"x_private", true}}};
      EXPECT_EQ(chat(whole)["choices"][0]["x_edgedraft"]["private"], "local");
      json next = history;
      next["messages"].push_back({{"role", "user"}, {"content", "Qqqq?"}});
      next["private"] = "off";
      const json answer = chat(next);
      EXPECT_GT(answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), 20)
          << mode << ", " << value;
    }
  }
}

TEST_F(PrivacyTest, LocalKeepsAnswersAndTheirQuotesOnDevice) {
  sent_for(chat_of("Tell me a story about a dog and a <private>ball</private>.",
                   {{"private", "local"}, {"max_tokens", 40}}),
           true, {.writes_alone = true});
  const std::string told = answer_["message"]["content"];
  ASSERT_GT(told.size(), 60u);
  EXPECT_EQ(answer_["x_edgedraft"]["target_passes"], 0);
  const std::uint64_t before = last_sent();
  // A quoted part of it, without a marked word.
  const json quoted = chat(chat_of("What does this mean: \"" + told.substr(told.size() / 3) + "\"?",
                                   {{"private", "local"}, {"max_tokens", 10}}))["choices"][0];
  EXPECT_EQ(quoted["x_edgedraft"]["private"], "local");
  for (const json& shown : shown_since(before)) EXPECT_EQ(shown["kind"], "hello");
  const json free = chat(
      chat_of("What is 47 plus 38?", {{"private", "local"}, {"max_tokens", 10}}))["choices"][0];
  EXPECT_GT(free["x_edgedraft"]["target_passes"], 0);
  for (const json& fields :
       {json{{"logprobs", true}},
        json{{"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}}}) {
    json body = chat_of("I am <private>Bob</private>.", fields);
    body["private"] = "local";
    EXPECT_EQ(post("/v1/chat/completions", body).status, 400u);
  }
}

// Its reader has seen it, and may quote it.
TEST_F(PrivacyTest, LocalKeepsQuotesOfStoppedAnswerOnDevice) {
  start({.writes_alone = true});
  const std::string id(32, 's');
  RawPeer peer(api_->port());
  const std::string told = begun_here(peer, id);
  EXPECT_EQ(remove("/v1/stream?conv_id=" + id).status, 204u);
  const json quoted = chat(chat_of("What does this mean: \"" + told + "\"?",
                                   {{"private", "local"}, {"max_tokens", 10}}))["choices"][0];
  EXPECT_EQ(quoted["x_edgedraft"]["private"], "local");
}

// Likewise before the answer has ended.
TEST_F(PrivacyTest, MasksQuotesOfUnfinishedLocalAnswer) {
  start({.writes_alone = true});
  RawPeer peer(api_->port());
  const std::string told = begun_here(peer, std::string(32, 's'));
  const json question =
      chat_of("What does this mean: \"" + told + "\"?", {{"private", "mask"}, {"max_tokens", 5}});
  const json preview = posted("/v1/edgedraft/preview", question);
  EXPECT_EQ(preview["messages"][0]["content"], "[TEXT_001]");
  EXPECT_EQ(chat(question)["choices"][0]["x_edgedraft"]["private"], json({{"text", 1}}));
}

TEST_F(PrivacyTest, RefusesUnmarkedDetectedTextIfConfigured) {
  start({.privacy = {.detects = {PrivateType::mail}, .refuses_detected = true}});
  const json error = refused("/v1/chat/completions", chat_of("Write to zoe@lee.org."));
  EXPECT_EQ(error["code"], "private_text_found");
  EXPECT_EQ(error.dump().find("zoe"), std::string::npos);
  EXPECT_EQ(
      post("/v1/chat/completions", chat_of("Write to <private>zoe@lee.org</private>.")).status,
      200u);
  const json tools = json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
           "properties": {"zoe@lee.org": {"type": "string"}}}}}])");
  const json named = chat_of("Write to <private>zoe@lee.org</private>.", {{"tools", tools}});
  EXPECT_EQ(refused("/v1/chat/completions", named)["code"], "private_name");
}

TEST_F(PrivacyTest, UplinkPageShowsSentMessages) {
  sent_for(chat_of("I am <private>Annabel</private>.", {{"max_tokens", 5}}));
  const json seen = page("/v1/edgedraft/uplink")["data"];
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen[0]["kind"], "hello");
  EXPECT_FALSE(seen[0].contains("hex"));
  EXPECT_EQ(seen[1]["kind"], "prefill");
  EXPECT_NE(seen[1]["text"].get<std::string>().find("I am [TEXT_001]."), std::string::npos);
  EXPECT_EQ(seen[1]["hex"].get<std::string>().size(), 2 * seen[1]["bytes"].get<std::size_t>());
  const std::string last = std::to_string(seen.back()["number"].get<std::uint64_t>());
  EXPECT_TRUE(page("/v1/edgedraft/uplink?since=" + last)["data"].empty());
  EXPECT_EQ(get("/v1/edgedraft/uplink?since=x").status, 400u);
}

}  // namespace
}  // namespace edgedraft::client
