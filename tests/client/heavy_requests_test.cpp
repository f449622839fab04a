#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/local_server_rig.h"
#include "tests/net/raw_peer.h"

// Requests that are as large as the endpoint accepts, or as slow for their size as known. Prints
// how long others waited beside each, and the peak memory of the process:
//
//   client_test --gtest_filter='*HeavyRequest*'
namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::chat_of;
using testing::LocalServerTest;

constexpr Duration kWaitMax = 250ms;
// On a busy machine, even an idle endpoint answers late: others may wait for this many such times.
constexpr int kQuietTimes = 40;
// The process holds client, server, model and the test's own copies of a body.
constexpr std::size_t kPeakKib = 1u << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasures = false;  // sanitizers multiply time and memory
#else
constexpr bool kMeasures = true;
#endif

std::string repeated(const std::string& part, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + part.size());
  while (text.size() < bytes) text += part;
  return text;
}

std::string joined(std::size_t count, const std::function<std::string(std::size_t)>& part) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + part(i);
  return text;
}

struct HeavyRequest {
  const char* name;
  const char* path;
  std::function<std::string()> body;
  const char* method = "POST";
};

std::function<std::string()> chat_with(const std::string& part, std::size_t bytes) {
  return [=] { return chat_of(repeated(part, bytes), {{"max_tokens", 1}}).dump(); };
}

std::string marked(std::size_t count, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += "<private>" + std::string(40, 'q') + std::to_string(i) + "</private> ";
  }
  return chat_of(text + std::string(bytes, 'q'), {{"max_tokens", 1}}).dump();
}

std::string chat_with_field(const std::string& field) {
  return R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":1,)" + field + "}";
}

std::string schema_field(const std::string& schema) {
  return chat_with_field(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":)" + schema +
      "}}");
}

std::string nested_schema(int depth, const std::string& inner) {
  std::string schema = inner;
  for (int i = 0; i < depth; ++i) schema = R"({"anyOf":[)" + schema + "]}";
  return schema;
}

std::string tools_field(std::size_t count) {
  return chat_with_field("\"tools\":[" +
                         joined(count,
                                [](std::size_t i) {
                                  return R"({"type":"function","function":{"name":"f)" +
                                         std::to_string(i) +
                                         R"(","parameters":{"type":"object","properties":{)" +
                                         joined(64,
                                                [](std::size_t j) {
                                                  return "\"p" + std::to_string(j) +
                                                         R"(":{"type":"string","maxLength":1000})";
                                                }) +
                                         "}}}}";
                                }) +
                         "]");
}

std::string grammar_field() {
  std::string grammar = "root ::= ";
  for (int i = 0; i < 1000; ++i) grammar += "(r0 | \"a\"* r0)* ";
  grammar += "\nr0 ::= [a-z]{1,500} | \"b\" r0\n";
  return chat_with_field("\"grammar\":" + json(grammar).dump());
}

// The largest of random sizes.
constexpr std::size_t kPropertyBytesMax = 4'000'000;
constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kWords = "the quick brown fox jumps over the lazy dog ";

const std::vector<HeavyRequest>& heavy_requests() {
  static const std::vector<HeavyRequest> all = {
      {"WordsBeyondContext", kChat, chat_with(kWords, 15'000'000)},
      {"OneLetterBeyondContext", kChat, chat_with("a", 15'000'000)},
      {"LongestWords", kChat, chat_with(kWords, 3'000'000)},
      {"LongestLetter", kChat, chat_with("a", 3'000'000)},
      {"TokenizedWords", "/tokenize",
       [] {
         return json{{"content", repeated(kWords, 1'000'000)}}.dump();
       }},
      {"TokenizedLetter", "/tokenize",
       [] {
         return json{{"content", std::string(1'000'000, 'a')}}.dump();
       }},
      {"Detokenized", "/detokenize",
       [] { return R"({"tokens":[)" + joined(200'000, [](std::size_t) { return "100"; }) + "]}"; }},
      {"StopsOfZeros", kChat,
       [] { return chat_with_field("\"stop\":[" + repeated("0,", 14'000'000) + "0]"); }},
      {"NestedEnum", kChat,
       [] {
         return schema_field(nested_schema(30, R"({"enum":[)" + repeated("0,", 500'000) + "0]}"));
       }},
      {"TooManyMarkedValues", kChat, [] { return marked(9'000, 300'000); }},
      {"MarkedValuesOfOnePrefix", kChat, [] { return marked(1'000, 500'000); }},
      {"HexDigits", kChat, chat_with("0123456789abcdef", 2'000'000)},
      {"KeyHeaders", kChat, chat_with("-----BEGIN PRIVATE KEY-----\n", 2'000'000)},
      {"Backslashes", kChat, chat_with("\\", 2'000'000)},
      {"ExpandingLigatures", kChat, chat_with("\xef\xb7\xba", 3'000'000)},
      {"CardNumbers", kChat, chat_with("4111 1111 1111 1111 ", 2'000'000)},
      {"AddressSigns", kChat, chat_with("a@b.", 2'000'000)},
      {"ManyTools", kChat, [] { return tools_field(128); }},
      {"RepeatedGrammar", kChat, grammar_field},
      {"Biases", kChat,
       [] {
         return chat_with_field(
             "\"logit_bias\":{" +
             joined(4'000, [](std::size_t i) { return "\"" + std::to_string(i) + "\":1"; }) + "}");
       }},
      {"ManyMessages", kChat,
       [] {
         return R"({"max_tokens":1,"messages":[)" +
                joined(30'000, [](std::size_t) { return R"({"role":"user","content":"a"})"; }) +
                "]}";
       }},
      {"TokenPrompt", "/v1/completions",
       [] { return R"({"max_tokens":1,"prompt":[)" + repeated("5,", 400'000) + "5]}"; }},
      {"Template", "/apply-template", chat_with(kWords, 15'000'000)},
      {"Preview", "/v1/edgedraft/preview", chat_with(kWords, 15'000'000)},
      {"Conversation", "/v1/edgedraft/conversation?id=0123456789abcdef0",
       [] {
         return json{{"title", "x"}, {"document", {{"text", repeated(kWords, 15'000'000)}}}}.dump();
       },
       "PUT"},
  };
  return all;
}

std::size_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6));
  }
  return 0;
}

// Resets the peak, so that each request's own is measured.
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

class HeavyRequestTest : public LocalServerTest {
 protected:
  // Longest time of a light request of each kind.
  struct Waits {
    Duration page{};
    Duration worker{};
    int count = 0;
  };
  void ask_lightly(Waits& waits) {
    const auto timed = [](Duration& longest, const auto& act) {
      const Instant begin = Clock::now();
      EXPECT_EQ(act().status, 200u);
      longest = std::max(longest, Clock::now() - begin);
    };
    timed(waits.page, [this] { return get("/v1/models"); });
    timed(waits.worker, [this] { return post("/tokenize", {{"content", "Hi"}}); });
    ++waits.count;
  }
  // Longest waits while `act` runs.
  template <class Act>
  Waits waits_beside(Act act) {
    std::atomic<bool> is_over = false;
    std::thread heavy([&] {
      act();
      is_over = true;
    });
    Waits waits;
    do {
      ask_lightly(waits);
    } while (!is_over);
    heavy.join();
    return waits;
  }
  Duration wait_max() {
    Waits quiet;
    for (int i = 0; i < 10; ++i) ask_lightly(quiet);
    return std::max(kWaitMax, kQuietTimes * std::max(quiet.page, quiet.worker));
  }
  static long ms(Duration duration) {
    return static_cast<long>(
        std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
  }
};

class FixedHeavyRequestTest : public HeavyRequestTest,
                              public ::testing::WithParamInterface<HeavyRequest> {};

TEST_P(FixedHeavyRequestTest, LeavesOthersServedWithinMemory) {
  const HeavyRequest& heavy = GetParam();
  start({.privacy = {.detects = {PrivateType::mail, PrivateType::phone, PrivateType::card,
                                 PrivateType::iban, PrivateType::address, PrivateType::key}}});
  const Duration most = wait_max();
  const std::string body = heavy.body();
  forget_peak();
  unsigned status = 0;
  const Instant begin = Clock::now();
  const Waits waits = waits_beside([&] {
    status = testing::ask(api_->port(), {.method = heavy.method, .path = heavy.path, .body = body})
                 .status;
  });
  std::printf(
      "%-24s %6zu kB: status %u in %5ld ms; others waited %3ld ms (page), %3ld ms (worker);"
      " peak %zu MiB\n",
      heavy.name, body.size() / 1000, status, ms(Clock::now() - begin), ms(waits.page),
      ms(waits.worker), peak_kib() / 1024);
  EXPECT_TRUE(status == 200 || status == 400) << status;
  if (!kMeasures) return;
  EXPECT_LE(waits.page, most);
  EXPECT_LE(waits.worker, most);
  EXPECT_LE(peak_kib(), kPeakKib);
}

INSTANTIATE_TEST_SUITE_P(All, FixedHeavyRequestTest, ::testing::ValuesIn(heavy_requests()),
                         [](const auto& heavy) { return heavy.param.name; });

// Several connections send heavy requests of random kind and size.
TEST_F(HeavyRequestTest, RandomSizesLeaveOthersServedWithinMemory) {
  start({.privacy = {.detects = {PrivateType::mail, PrivateType::card, PrivateType::key}}});
  // Makes the context known, as after any first answer.
  EXPECT_EQ(post(kChat, chat_of("Hi", {{"max_tokens", 1}})).status, 200u);
  const auto seed = static_cast<std::uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("--gtest_random_seed=" + std::to_string(seed));
  const Duration most = wait_max();
  forget_peak();
  const Instant end = Clock::now() + 2s;
  std::atomic<int> answered = 0;
  const Waits waits = waits_beside([&] {
    std::vector<std::thread> clients;
    for (std::uint32_t client = 0; client < 4; ++client) {
      clients.emplace_back([&, random = std::mt19937(seed + client)]() mutable {
        while (Clock::now() < end) {
          const std::string parts[] = {
              kWords, "a",  "0123456789abcdef",          "4111 1111 1111 1111 ",
              "a@b.", "\\", "<private>qqqqqq</private>", "\xef\xb7\xba"};
          const std::string& part = parts[random() % std::size(parts)];
          // Sizes of all magnitudes up to 4 MB.
          const std::size_t bytes = std::size_t{1} << (10 + random() % 13);
          const char* const paths[] = {kChat, kChat, "/v1/edgedraft/preview", "/apply-template"};
          const unsigned status =
              testing::ask(api_->port(),
                           {.method = "POST",
                            .path = paths[random() % std::size(paths)],
                            .body = chat_with(part, std::min(bytes, kPropertyBytesMax))()})
                  .status;
          EXPECT_TRUE(status == 200 || status == 400 || status == 503) << status;
          ++answered;
        }
      });
    }
    for (std::thread& client : clients) client.join();
  });
  std::printf("%d heavy requests; others waited %ld ms (page), %ld ms (worker); peak %zu MiB\n",
              answered.load(), ms(waits.page), ms(waits.worker), peak_kib() / 1024);
  if (!kMeasures) return;
  EXPECT_LE(waits.page, most);
  EXPECT_LE(waits.worker, most);
  EXPECT_LE(peak_kib(), kPeakKib);
}

// A client that leaves frees its turn and its share of the bodies.
TEST_F(HeavyRequestTest, DropsWaitingRequestsOfClientsThatLeft) {
  const std::string body = json{{"content", repeated(kWords, 1'000'000)}}.dump();
  const Instant begin = Clock::now();
  EXPECT_EQ(
      testing::ask(api_->port(), {.method = "POST", .path = "/tokenize", .body = body}).status,
      200u);
  const Duration one = Clock::now() - begin;
  {
    std::vector<std::unique_ptr<RawPeer>> leaving;
    for (int i = 0; i < 40; ++i) {
      leaving.push_back(std::make_unique<RawPeer>(api_->port()));
      leaving.back()->write("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body);
    }
  }
  const Instant left = Clock::now();
  EXPECT_EQ(
      testing::ask(api_->port(), {.method = "POST", .path = "/tokenize", .body = body}).status,
      200u);
  EXPECT_LT(Clock::now() - left, 20 * one) << "served 40 departed clients first";
}

}  // namespace
}  // namespace edgedraft::client
