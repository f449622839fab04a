#include "client/serve/local_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/client/local_server_rig.h"
#include "tests/net/raw_peer.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::chat_of;
using testing::event_data;
using testing::events_of;
using testing::HttpResult;
using testing::kStory;
using testing::LocalServerTest;
using testing::raw_chat;
using testing::streamed_text;
using testing::text_of;

TEST_F(LocalServerTest, AnswersOthersWhileReadingLargeRequest) {
  start({});
  std::string text;
  while (text.size() < 1u << 20) text += "the quick brown fox jumps over the lazy dog ";
  std::atomic<bool> is_read = false;
  std::thread large([&] {
    EXPECT_EQ(post("/tokenize", {{"content", text.substr(0, 1'000'000)}}).status, 200u);
    is_read = true;
  });
  // Waits for the body to arrive.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  int others = 0;
  for (; !is_read; ++others) EXPECT_EQ(get("/v1/models").status, 200u);
  large.join();
  EXPECT_GT(others, 10);
}

TEST_F(LocalServerTest, RefusesBodiesTooLargeForAnyContext) {
  start({});
  EXPECT_EQ(post("/v1/chat/completions", chat_of("Hi", {{"max_tokens", 1}})).status, 200u);
  const std::string text(1'500'000, 'a');
  EXPECT_EQ(refused("/v1/chat/completions", chat_of(text))["code"], "context_length_exceeded");
  EXPECT_EQ(post("/v1/completions", {{"prompt", text}, {"max_tokens", 1}}).status, 400u);
}

// Without a key, a client cannot make it hold bodies.
TEST_F(LocalServerTest, RefusesWithoutReadingBody) {
  start({.key = "secret"});
  for (const char* const line : {"POST /health", "DELETE /page/main.js", "POST /v1/completions"}) {
    RawPeer peer(api_->port());
    peer.write(std::string(line) +
               " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n\r\n");
    EXPECT_TRUE(text_of(peer.read_some()).starts_with("HTTP/1.1 4")) << line;
  }
}

TEST_F(LocalServerTest, StreamEqualsWholeAnswer) {
  const json whole = chat(chat_of(kStory));
  const HttpResult stream =
      post("/v1/chat/completions",
           chat_of(kStory, {{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  EXPECT_EQ(stream.status, 200u);
  EXPECT_EQ(stream.header("content-type"), "text/event-stream");
  std::string content;
  std::string reason;
  const auto data = event_data(stream.body);
  ASSERT_GE(data.size(), 4u);
  for (std::size_t i = 0; i + 1 < data.size(); ++i) {
    const json chunk = json::parse(data[i]);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], json::parse(data[0])["id"]);
    if (i + 2 == data.size()) {
      EXPECT_TRUE(chunk["choices"].empty());
      EXPECT_EQ(chunk["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
      continue;
    }
    EXPECT_TRUE(chunk["usage"].is_null());
    const json& choice = chunk["choices"][0];
    EXPECT_EQ(choice["index"], 0);
    ASSERT_TRUE(choice.contains("finish_reason")) << "clients look for the key in every chunk";
    EXPECT_EQ(choice["delta"].value("role", "-"), i == 0 ? "assistant" : "-");
    if (choice["delta"].contains("content")) content += choice["delta"]["content"];
    if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
  }
  EXPECT_EQ(data.back(), "[DONE]");
  EXPECT_EQ(content, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(reason, whole["choices"][0]["finish_reason"]);
  EXPECT_GT(content.size(), 40u);
}

TEST_F(LocalServerTest, DraftedAnswersEqualPlainDecoding) {
  const std::vector<json> bodies = {chat_of(kStory),
                                    chat_of(kStory, {{"temperature", 0.9}, {"seed", 11}}),
                                    chat_of(kStory, {{"n", 3}, {"temperature", 1.2}, {"seed", 3}})};
  std::vector<json> drafted;
  for (const json& body : bodies) drafted.push_back(chat(body)["choices"]);
  start({.plain = true});
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const json plain = chat(bodies[i])["choices"];
    ASSERT_EQ(plain.size(), drafted[i].size());
    for (std::size_t c = 0; c < plain.size(); ++c) {
      EXPECT_EQ(plain[c]["message"], drafted[i][c]["message"]);
    }
  }
  std::set<json> answers;
  for (const json& choice : drafted[2]) answers.insert(choice["message"]);
  EXPECT_GT(answers.size(), 1u);
}

// The counts have OpenAI's names; other drafts are not in them.
TEST_F(LocalServerTest, PredictionChangesUsageButNotAnswer) {
  start({.lockstep = true});
  const auto predicting = [&](const std::string& text) {
    return chat(chat_of(kStory, {{"prediction", {{"type", "content"}, {"content", text}}}}));
  };
  const auto count_of = [](const json& answer, const std::string& name) {
    return answer["usage"]["completion_tokens_details"][name + "_prediction_tokens"]
        .get<std::uint32_t>();
  };
  const json plain = chat(chat_of(kStory));
  const std::string text = plain["choices"][0]["message"]["content"];
  const auto tokens = plain["usage"]["completion_tokens"].get<std::uint32_t>();
  EXPECT_EQ(count_of(plain, "accepted") + count_of(plain, "rejected"), 0u);

  const json right = predicting(text);
  EXPECT_EQ(right["choices"][0]["message"]["content"], text);
  EXPECT_GT(count_of(right, "accepted"), tokens / 2);
  EXPECT_LE(count_of(right, "accepted"), tokens);

  std::string junk;
  for (int i = 0; i < 1000; ++i) junk += std::to_string(i * 7919 % 1000) + " ";
  const json wrong = predicting(junk);
  EXPECT_EQ(wrong["choices"][0]["message"]["content"], text);
  EXPECT_GT(count_of(wrong, "rejected"), 0u);
  EXPECT_LE(count_of(wrong, "rejected"), 64 + tokens / 4);
}

TEST_F(LocalServerTest, SamplesChoicesIndependentlyAndRepeatably) {
  const json three = chat_of(kStory, {{"n", 3}, {"temperature", 1.0}, {"seed", 42}});
  const json first = chat(three)["choices"];
  EXPECT_EQ(first[0]["message"],
            chat(chat_of(kStory, {{"temperature", 1.0}, {"seed", 42}}))["choices"][0]["message"]);
  EXPECT_EQ(first.dump().find("\"index\":3"), std::string::npos);
  const json again = chat(three)["choices"];
  for (int c = 0; c < 3; ++c) EXPECT_EQ(first[c]["message"], again[c]["message"]);
  // Without a seed each request has different draws.
  EXPECT_NE(text(chat_of(kStory, {{"temperature", 1.0}})),
            text(chat_of(kStory, {{"temperature", 1.0}})));
}

TEST_F(LocalServerTest, StopTextEndsWholeAndStreamedAnswers) {
  const std::string whole = text(chat_of(kStory));
  const std::string stop = whole.substr(whole.size() / 2, 7);
  const std::string before = whole.substr(0, whole.find(stop));
  const json cut = chat(chat_of(kStory, {{"stop", stop}}))["choices"][0];
  EXPECT_EQ(cut["message"]["content"], before);
  EXPECT_EQ(cut["finish_reason"], "stop");
  const HttpResult stream =
      post("/v1/chat/completions", chat_of(kStory, {{"stop", {"qqq", stop}}, {"stream", true}}));
  EXPECT_EQ(streamed_text(stream), before);
}

// The target might not have written it.
TEST_F(LocalServerTest, ChecksStopTextWrittenOffline) {
  const std::string right = text(chat_of(kStory, {{"stop", "."}}));
  plug_.put(false);
  std::thread away([this] {
    std::this_thread::sleep_for(500ms);
    plug_.put(true);
  });
  const json told = chat(chat_of(kStory, {{"stop", "."}, {"offline", "revise"}}))["choices"][0];
  away.join();
  EXPECT_EQ(told["x_edgedraft"]["offline_tokens"], 0);
  EXPECT_EQ(told["message"]["content"], right);
  EXPECT_EQ(told["finish_reason"], "stop");
}

// Clients send the whole history; known parts are neither computed nor sent again.
TEST_F(LocalServerTest, HistoryContinuesItsConversation) {
  json body = chat_of(kStory);
  json first = chat(body);
  const std::uint32_t known = first["usage"]["total_tokens"];
  for (int i = 0; i < 3; ++i) chat(chat_of("What is " + std::to_string(i) + " plus 5?"));
  body["messages"].push_back(first["choices"][0]["message"]);
  body["messages"].push_back({{"role", "user"}, {"content", "What is 3 plus 4?"}});
  const json second = chat(body);
  const std::uint32_t cached = second["usage"]["prompt_tokens_details"]["cached_tokens"];
  EXPECT_GE(cached + 1, known) << "only the end token may be missing";
  EXPECT_EQ(second["timings"]["cache_n"], cached);
  // The answer equals the one to a history sent whole.
  start({.plain = true});
  EXPECT_EQ(chat(body)["choices"][0]["message"], second["choices"][0]["message"]);
}

// Constraints leave drafted and plain answers equal.
TEST_F(LocalServerTest, ConstrainedAnswersEqualPlainDecoding) {
  const json schema = json::parse(
      R"({"type": "object", "properties": {"day": {"enum": ["Monday", "Friday"]},
          "guests": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
          "count": {"type": "integer"}}, "required": ["day", "guests", "count"],
          "additionalProperties": false})");
  const json format = {{"type", "json_schema"},
                       {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  std::vector<json> bodies;
  for (int seed = 0; seed < 20; ++seed) {
    bodies.push_back(chat_of(
        "Who comes?",
        {{"response_format", format}, {"temperature", 1.0}, {"max_tokens", 100}, {"seed", seed}}));
  }
  bodies.push_back(chat_of(kStory, {{"frequency_penalty", 1.5}, {"presence_penalty", 0.5}}));
  bodies.push_back(chat_of(kStory, {{"logit_bias", {{"300", 3}, {"301", -100}}}}));
  bodies.push_back(chat_of(kStory, {{"grammar", "root ::= [A-Z] [^.!?]{20,60} [.!?]"}}));
  bodies.push_back(chat_of(kStory, {{"response_format", {{"type", "json_object"}}}}));
  std::vector<json> drafted;
  for (const json& body : bodies) drafted.push_back(chat(body)["choices"][0]);
  start({.plain = true});
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const json plain = chat(bodies[i])["choices"][0];
    EXPECT_EQ(plain["message"], drafted[i]["message"]) << i;
    if (plain["finish_reason"] == "length") continue;
    const std::string content = plain["message"]["content"];
    if (i < 20) {
      const json value = json::parse(content);
      EXPECT_TRUE(value["day"] == "Monday" || value["day"] == "Friday");
      EXPECT_LE(value["guests"].size(), 3u);
      EXPECT_TRUE(value["count"].is_number_integer());
      EXPECT_EQ(value.size(), 3u);
    }
  }
}

TEST_F(LocalServerTest, AddsBosTokenThatTemplateOmits) {
  const auto prompt_tokens = [&](const std::string& begin) {
    chat_ = ChatTemplate::parse(begin + "<|user|>\n{{ messages[0].content }}<|end|>\n").value();
    start({});
    json counts;
    for (const char* mode : {"mask", "prefix", "local"}) {
      const json answer =
          chat(chat_of("I am <private>Ann</private>.", {{"private", mode}, {"max_tokens", 1}}));
      counts[mode] = answer["usage"]["prompt_tokens"];
    }
    return counts;
  };
  EXPECT_EQ(prompt_tokens(""), prompt_tokens("{{ bos_token }}"));
}

// A template may begin a thought, which constrained answers have no place for.
TEST_F(LocalServerTest, ConstrainedAnswersAreContentNotReasoning) {
  chat_ = ChatTemplate::parse(
              "{% for message in messages %}<|user|>\n{{ message.content }}<|end|>\n{% endfor %}"
              "<|assistant|>\n<think>\n")
              .value();
  start({});
  const json message = chat(
      chat_of(kStory, {{"grammar", R"(root ::= "{\"a\": " [0-9] "}")"}}))["choices"][0]["message"];
  EXPECT_TRUE(json::parse(message["content"].get<std::string>())["a"].is_number()) << message;
  EXPECT_FALSE(message.contains("reasoning_content")) << message;
  // Without a constraint it is a thought until it ends.
  EXPECT_TRUE(chat(chat_of(kStory))["choices"][0]["message"].contains("reasoning_content"));
}

TEST_F(LocalServerTest, RefusesChatThatRendersEmpty) {
  chat_ =
      ChatTemplate::parse(
          "{% for message in messages %}{% if not loop.first %}{{ bos_token + message.content }}"
          "{% endif %}{% endfor %}")
          .value();
  start({});
  const json open = {{"role", "system"}, {"content", "Be brief."}};
  const json secret = {{"role", "system"}, {"content", "I am <private>Ann</private>."}};
  for (const json& message : {open, secret}) {
    for (const char* const mode : {"mask", "local", "prefix"}) {
      const json error =
          refused("/v1/chat/completions",
                  {{"messages", json::array({message})}, {"private", mode}, {"max_tokens", 2}});
      EXPECT_TRUE(contains(error.dump(), "no token")) << mode;
    }
  }
  const json user = {{"role", "user"}, {"content", "Hi"}};
  chat({{"messages", json::array({user, user})}, {"max_tokens", 2}});
}

TEST_F(LocalServerTest, CallsFunctionsAndContinuesWithResults) {
  const json tools = json::parse(
      R"([{"type": "function", "function": {"name": "set_alarm", "parameters": {"type": "object",
           "properties": {"time": {"type": "string"}, "day": {"type": "string"}},
           "required": ["time", "day"], "additionalProperties": false}}}])");
  json body = chat_of("I need an alarm at 12:40 am on Saturday.", {{"tools", tools}});
  const json first = chat(body);
  const json& choice = first["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  const json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "set_alarm");
  EXPECT_EQ(json::parse(call["function"]["arguments"].get<std::string>()),
            json::parse(R"({"time": "00:40", "day": "Saturday"})"));

  json streamed = body;
  streamed["stream"] = true;
  json deltas = json::array();
  std::string reason;
  for (json& event : events_of(post("/v1/chat/completions", streamed))) {
    json& one = event["choices"][0];
    if (one["delta"].contains("tool_calls")) deltas.push_back(one["delta"]["tool_calls"]);
    EXPECT_EQ(one["delta"].value("content", ""), "");
    if (!one["finish_reason"].is_null()) reason = one["finish_reason"];
  }
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0][0]["index"], 0);
  EXPECT_EQ(deltas[0][0]["function"], call["function"]);
  EXPECT_EQ(reason, "tool_calls");

  body["messages"].push_back(choice["message"]);
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "alarm is set"}});
  const json second = chat(body);
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>() + 1,
            first["usage"]["total_tokens"].get<int>());
  // The tool choice forces a call, whatever the prompt.
  body = chat_of(kStory, {{"tools", tools}, {"tool_choice", "required"}});
  EXPECT_EQ(chat(body)["choices"][0]["finish_reason"], "tool_calls");
  // A call that was cut is text.
  body["max_tokens"] = 6;
  const json cut = chat(body)["choices"][0];
  EXPECT_EQ(cut["finish_reason"], "length");
  EXPECT_FALSE(cut["message"].contains("tool_calls"));
}

// The model uses the template's own form for calls, if it has one.
TEST_F(LocalServerTest, CallsFunctionsInTemplateForm) {
  chat_ =
      ChatTemplate::parse(
          "{{ bos_token }}{% if tools %}{{ '<|user|>\\n' + (tools | tojson) + '<|end|>\\n' }}"
          "{% endif %}{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|assistant|>\\n' "
          "+ m.content }}{% for call in m.tool_calls %}{{ '\\n' if m.content or not loop.first "
          "else '' }}{{ '<call>' + call.function.name + ' ' + call.function.arguments + "
          "'</call>' }}{% endfor %}{{ '<|end|>\\n' }}{% else %}{{ '<|user|>\\n' + m.content + "
          "'<|end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|assistant|>\\n' }}{% endif %}")
          .value();
  start({});
  json body = chat_of("I need an alarm at 12:40 am on Saturday.",
                      {{"tool_choice", "required"}, {"tools", json::parse(R"([{"type": "function",
          "function": {"name": "set_alarm", "parameters": {"type": "object",
            "properties": {"loud": {"type": "boolean"}, "factor": {"const": 1.5}},
            "required": ["loud", "factor"], "additionalProperties": false}}}])")}});
  const std::string prompt = posted("/apply-template", body)["prompt"].get<std::string>();
  EXPECT_NE(prompt.find("\"factor\": {\"const\": 1.5}"), std::string::npos) << prompt;
  const json first = chat(body);
  const json& choice = first["choices"][0];
  ASSERT_EQ(choice["finish_reason"], "tool_calls") << choice;
  const json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "set_alarm");
  EXPECT_TRUE(json::accept(call["function"]["arguments"].get<std::string>()));
  body["messages"].push_back(choice["message"]);
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "alarm is set"}});
  body["tool_choice"] = "auto";
  const json second = chat(body);
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>() + 1,
            first["usage"]["total_tokens"].get<int>())
      << "the call keeps its tokens";
}

TEST_F(LocalServerTest, NamesOfflineBundleIfDrafterNeedsTarget) {
  for (const json& body : {chat_of("Hi", {{"route", "device"}}),
                           chat_of("I am <private>Ann</private>.", {{"private", "local"}})}) {
    EXPECT_TRUE(
        contains(refused("/v1/chat/completions", body).dump(), "give --offline-bundle FILE"));
  }
}

TEST_F(LocalServerTest, MarksDeviceAnswersInHeaderAndFingerprint) {
  start({.writes_alone = true});
  const auto fingerprint = [](const json& answer) {
    return answer["system_fingerprint"].get<std::string>();
  };
  for (const bool is_alone : {false, true}) {
    json body = chat_of("Hi", {{"max_tokens", 5}, {"route", is_alone ? "device" : "server"}});
    const HttpResult whole = post("/v1/chat/completions", body);
    EXPECT_EQ(fingerprint(json::parse(whole.body)).ends_with(" offline"), is_alone) << whole.body;
    EXPECT_EQ(whole.header("X-Edgedraft-State"), is_alone ? "offline" : "");
    body["stream"] = true;
    const HttpResult stream = post("/v1/chat/completions", body);
    EXPECT_EQ(stream.header("X-Edgedraft-State"), is_alone ? "offline" : "");
    const json last = events_of(stream).back();
    EXPECT_EQ(fingerprint(last).ends_with(" offline"), is_alone) << last;
  }
}

TEST_F(LocalServerTest, ListsUnenforcedSchemaKeywordsInHeader) {
  start({});
  const auto answer = [&](json schema) {
    return post("/v1/chat/completions",
                chat_of("I need an alarm at 12:40 am on Saturday.",
                        {{"tool_choice", "required"},
                         {"tools",
                          {{{"type", "function"},
                            {"function", {{"name", "f"}, {"parameters", std::move(schema)}}}}}}}));
  };
  const json followed = {
      {"type", "object"},
      {"properties", {{"n", {{"type", "integer"}, {"minimum", 3}, {"maximum", 12}}}}},
      {"required", {"n"}}};
  const HttpResult whole = answer(followed);
  ASSERT_EQ(whole.status, 200u) << whole.body;
  EXPECT_EQ(whole.header("X-Edgedraft-Unenforced"), "");
  const json call = json::parse(whole.body)["choices"][0]["message"]["tool_calls"][0];
  const int n = json::parse(call["function"]["arguments"].get<std::string>())["n"];
  EXPECT_TRUE(n >= 3 && n <= 12) << n;
  json left = followed;
  left["uniqueItems"] = true;
  left["properties"]["n"]["multipleOf"] = 3;
  left["not"] = {{"const", 1}};
  const HttpResult part = answer(left);
  ASSERT_EQ(part.status, 200u) << part.body;
  EXPECT_EQ(part.header("X-Edgedraft-Unenforced"), "multipleOf, not");
}

TEST_F(LocalServerTest, RouteDecidesWhichSideAnswers) {
  start({.writes_alone = true});
  const json alone = chat(chat_of(kStory, {{"route", "device"}, {"max_tokens", 30}}))["choices"][0];
  EXPECT_EQ(alone["x_edgedraft"]["offline_tokens"], alone["x_edgedraft"]["tokens"]);
  EXPECT_EQ(alone["x_edgedraft"]["target_passes"], 0);
  // No drafter reaches this confidence. Its conversation is reused for the same prompt and is
  // connected by then.
  text(chat_of(kStory));
  const json both = chat(chat_of(kStory, {{"route", "auto"}, {"max_tokens", 60}}))["choices"][0];
  EXPECT_GE(both["x_edgedraft"]["offline_tokens"], DrafterConfidence::kTokens);
  EXPECT_LT(both["x_edgedraft"]["offline_tokens"], both["x_edgedraft"]["tokens"]);
  EXPECT_GT(both["x_edgedraft"]["target_passes"], 0);
  EXPECT_EQ(post("/v1/chat/completions", chat_of("Hi", {{"route", "nowhere"}})).status, 400u);
}

// A stream reports the same for each token, drafted or not, and the tokens' bytes form the text.
TEST_F(LocalServerTest, ReportsLogProbabilitiesPerToken) {
  json body = chat_of(
      kStory,
      {{"logprobs", true}, {"top_logprobs", 2}, {"temperature", 0.8}, {"seed", 4}, {"stop", "."}});
  const json whole = chat(body)["choices"][0];
  const json& content = whole["logprobs"]["content"];
  std::string bytes;
  for (const json& token : content) {
    for (const int byte : token["bytes"]) bytes += static_cast<char>(byte);
    EXPECT_LE(token["logprob"], token["top_logprobs"][0]["logprob"]);
    EXPECT_EQ(token["top_logprobs"].size(), 2u);
  }
  const std::string text = whole["message"]["content"];
  ASSERT_GT(text.size(), 10u);
  EXPECT_TRUE(bytes == text || bytes == " " + text) << bytes;

  body["stream"] = true;
  json streamed = json::array();
  std::size_t with = 0;
  for (json& event : events_of(post("/v1/chat/completions", body))) {
    json& one = event["choices"][0];
    if (one["logprobs"].is_null()) continue;
    ++with;
    for (const json& token : one["logprobs"]["content"]) streamed.push_back(token);
  }
  EXPECT_EQ(streamed, content);
  EXPECT_GT(with, 1u);

  const json completion = {{"prompt", "Once upon a time"}, {"max_tokens", 6}, {"logprobs", 3}};
  const json text_choice = posted("/v1/completions", completion)["choices"][0];
  EXPECT_EQ(text_choice["logprobs"]["tokens"].size(), 6u);
  EXPECT_EQ(text_choice["logprobs"]["top_logprobs"][5].size(), 3u);
  EXPECT_EQ(text_choice["logprobs"]["text_offset"][1],
            text_choice["logprobs"]["tokens"][0].get<std::string>().size());

  start({.plain = true});
  body["stream"] = false;
  EXPECT_EQ(chat(body)["choices"][0]["logprobs"], whole["logprobs"]);
}

TEST_F(LocalServerTest, ContinuesTextFromTextOrTokens) {
  const json answer = posted("/v1/completions",
                             {{"prompt", "Once upon a time"}, {"max_tokens", 6}, {"echo", true}});
  EXPECT_EQ(answer["object"], "text_completion");
  const std::string text = answer["choices"][0]["text"];
  EXPECT_TRUE(text.starts_with("Once upon a time"));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
  const json tokens = bundle_.encode_raw("Once upon a time");
  const json same = posted("/v1/completions", {{"prompt", tokens}, {"max_tokens", 6}});
  EXPECT_EQ("Once upon a time" + same["choices"][0]["text"].get<std::string>(), text);
  const json echoed =
      posted("/v1/completions", {{"prompt", tokens}, {"max_tokens", 6}, {"echo", true}});
  EXPECT_EQ(echoed["choices"][0]["text"], text);
  EXPECT_EQ(post("/v1/completions", {{"prompt", {1 << 20}}}).status, 400u);
}

// 64 parallel answers each equal the answer given alone.
TEST_F(LocalServerTest, ParallelAnswersEqualSequentialAnswers) {
  start({.conversations = 64, .line = 64});
  constexpr int kCount = 64;
  const auto body = [](int i) {
    return chat_of("What is " + std::to_string(i) + " plus " + std::to_string(7 * i) + "?",
                   {{"temperature", 0.7}, {"seed", i}, {"max_tokens", 24}});
  };
  std::vector<std::string> alone;
  for (int i = 0; i < kCount; ++i) alone.push_back(text(body(i)));
  std::vector<std::string> together(kCount);
  std::vector<std::thread> threads;
  for (int i = 0; i < kCount; ++i) {
    threads.emplace_back([&, i] { together[static_cast<std::size_t>(i)] = text(body(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
  EXPECT_LE(metric("conversations_open"), 64.0);
}

TEST_F(LocalServerTest, QueuesPromptsAndRefusesExcess) {
  start({.conversations = 1, .line = 1, .pass_pace = 5ms});
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const HttpResult result = post("/v1/chat/completions", chat_of(kStory));
      if (result.status == 200) ++answered;
      if (result.status == 503 && !result.header("Retry-After").empty()) ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(answered, 2);
  EXPECT_EQ(answered + refused, 6);
}

// Connections over the limit are closed at once; earlier ones get answers.
TEST_F(LocalServerTest, TenThousandConnectionsLeaveOthersUnaffected) {
  const std::string alone = text(chat_of(kStory));
  start({.pass_pace = 20ms});
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  constexpr std::size_t kConnections = 10'000;
  constexpr std::size_t kOwnFiles = 2'000;
  if (files.rlim_cur < kConnections + kOwnFiles) GTEST_SKIP() << "open file limit is too low";
  std::string answered;
  std::thread asks([&] { answered = text(chat_of(kStory)); });
  while (metric("requests_processing") < 1.0) std::this_thread::sleep_for(1ms);
  std::list<RawPeer> flood;
  while (flood.size() < kConnections) flood.emplace_back(api_->port());
  asks.join();
  EXPECT_EQ(answered, alone);
  EXPECT_EQ(text(chat_of(kStory)), alone) << "a request displaces an idle connection";
  flood.clear();
  unsigned status = 0;
  for (const Instant deadline = Clock::now() + 10s; status != 200 && Clock::now() < deadline;) {
    try {
      status = get("/health").status;
    } catch (const boost::system::system_error&) {
      std::this_thread::sleep_for(10ms);  // some closed connections may still count
    }
  }
  EXPECT_EQ(status, 200u);
}

// The passes end after a client closes its connection.
TEST_F(LocalServerTest, EndsAnswerAfterClientDisconnects) {
  start({.pass_pace = 20ms});
  const std::string body = chat_of(kStory, {{"stream", true}, {"max_tokens", 2000}}).dump();
  {
    RawPeer peer(api_->port());
    peer.write(raw_chat(body));
    std::string read;
    while (read.find("content") == std::string::npos) {
      const std::string some = text_of(peer.read_some());
      ASSERT_FALSE(some.empty());
      read += some;
    }
    EXPECT_EQ(metric("requests_processing"), 1.0);
  }
  wait_until_idle();
  EXPECT_EQ(metric("requests_processing"), 0.0);
  EXPECT_EQ(metric("answers_total"), 1.0);
  EXPECT_LT(metric("generation_tokens_total"), 60.0);
}

}  // namespace
}  // namespace edgedraft::client
