#include <gtest/gtest.h>

#include <chrono>
#include <list>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/local_server_rig.h"
#include "tests/net/raw_peer.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"

// Streams of the local API that outlive their connection.
namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::chat_of;
using testing::event_data;
using testing::HttpResult;
using testing::kStory;
using testing::LocalServerTest;
using testing::raw_chat;
using testing::streamed_text;
using testing::text_of;

TEST_F(LocalServerTest, EndsOldestUnreadStreamsWhenOthersBegin) {
  start({.conversations = 16, .pass_pace = std::chrono::milliseconds(500)});
  json names = json::array();
  std::list<RawPeer> peers;
  for (int i = 0; i < 10; ++i) {
    const std::string name = "a-name-that-nobody-guesses-" + std::to_string(i);
    names.push_back(name);
    peers.emplace_back(api_->port());
    peers.back().write(raw_chat(chat_of(kStory, {{"stream", true}}).dump(),
                                "X-Conversation-Id: " + name + "\r\n"));
    peers.back().read_some();
  }
  peers.clear();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(post("/v1/chat/completions", chat_of("Hi", {{"max_tokens", 1}})).status, 200u);
  const json streams = posted("/v1/streams/lookup", {{"conversation_ids", names}});
  ASSERT_EQ(streams.size(), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(streams[i]["is_done"], i < 2) << i;
}

TEST_F(LocalServerTest, KeptStreamOutlivesConnectionAndCanBeReread) {
  const std::string id = "123e4567-e89b-42d3-a456-426614174000";
  const json body = chat_of(kStory, {{"stream", true}});
  {
    RawPeer peer(api_->port());
    peer.write(raw_chat(body.dump(), "X-Conversation-Id: " + id + "\r\n"));
    ASSERT_FALSE(peer.read_some().empty());
  }
  const HttpResult stream = get("/v1/stream?conv_id=" + id + "&from=0");
  EXPECT_EQ(stream.status, 200u);
  const auto data = event_data(stream.body);
  ASSERT_FALSE(data.empty());
  EXPECT_EQ(data.back(), "[DONE]");
  EXPECT_EQ(streamed_text(stream), text(chat_of(kStory)));

  const json found = posted("/v1/streams/lookup", {{"conversation_ids", {id, "unknown"}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["conversation_id"], id);
  EXPECT_TRUE(found[0]["is_done"]);
  const std::size_t bytes = found[0]["total_bytes"];
  // Keep-alive comments are not part of it.
  EXPECT_EQ(bytes, stream.body.size());
  const HttpResult tail = get("/v1/stream?conv_id=" + id + "&from=100");
  EXPECT_EQ(tail.body, stream.body.substr(100));
  for (const std::string& from :
       std::vector<std::string>{"-1", "x", "", std::to_string(bytes + 1)}) {
    EXPECT_EQ(get("/v1/stream?from=" + from + "&conv_id=" + id).status, 400u);
  }
  EXPECT_EQ(remove("/v1/stream?conv_id=" + id).status, 204u);
  EXPECT_EQ(get("/v1/stream?conv_id=" + id).status, 404u);
  EXPECT_EQ(post("/v1/chat/completions", body, {{"X-Conversation-Id", "short"}}).status, 400u);
}

TEST_F(LocalServerTest, KeptStreamReportsFailureToLaterReaders) {
  const std::string id = "123e4567-e89b-42d3-a456-426614174001";
  std::string much;
  for (int i = 0; i < 3000; ++i) much += "word ";
  const HttpResult asked =
      post("/v1/chat/completions", chat_of(much, {{"stream", true}}), {{"X-Conversation-Id", id}});
  EXPECT_EQ(asked.status, 400u);
  const HttpResult stream = get("/v1/stream?conv_id=" + id);
  ASSERT_EQ(stream.status, 200u);
  const auto data = event_data(stream.body);
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(json::parse(data[0]), json::parse(asked.body));
}

TEST_F(LocalServerTest, EndsKeptStreamOverSizeLimit) {
  start({.kept_bytes = 4000});
  const std::string id(32, 'k');
  const json body = chat_of(kStory, {{"stream", true}, {"max_tokens", 60}});
  const HttpResult stream = post("/v1/chat/completions", body, {{"X-Conversation-Id", id}});
  const auto data = event_data(stream.body);
  ASSERT_FALSE(data.empty());
  EXPECT_EQ(json::parse(data.back())["error"]["code"], "stream_lost") << data.back();
  const json found = posted("/v1/streams/lookup", {{"conversation_ids", {id}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["is_done"], true);
}

TEST_F(LocalServerTest, StopsKeptStreamByNameAlone) {
  start({.pass_pace = 20ms});
  const std::string id(32, 'k');
  const std::string body = chat_of(kStory, {{"stream", true}, {"max_tokens", 2000}}).dump();
  RawPeer peer(api_->port());
  peer.write(raw_chat(body, "Connection: close\r\nX-Conversation-Id: " + id + "\r\n"));
  ASSERT_FALSE(peer.read_some().empty());
  EXPECT_EQ(remove("/v1/stream?conv_id=" + id).status, 204u);
  EXPECT_TRUE(contains(text_of(peer.read_to_end()), "\"stream_deleted\""));
  wait_until_idle();
  EXPECT_LT(metric("generation_tokens_total"), 60.0);
}

}  // namespace
}  // namespace edgedraft::client
