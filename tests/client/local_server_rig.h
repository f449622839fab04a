#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/serve/local_server.h"
#include "shared/net/client_link.h"
#include "tests/support/http_client.h"
#include "tests/support/loopback_server.h"

// The local API in front of a whole server.
namespace edgedraft::testing {
using namespace client;

using nlohmann::json;

inline json chat_of(const std::string& text, json fields = json::object()) {
  fields["messages"] = {{{"role", "user"}, {"content", text}}};
  return fields;
}

// A chat request as written to a connection.
inline std::string raw_chat(const std::string& body, const std::string& headers = {}) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// A stream's events without the final "[DONE]".
inline std::vector<json> events_of(const HttpResult& stream) {
  std::vector<json> events;
  for (const std::string& data : event_data(stream.body)) {
    if (data != "[DONE]") events.push_back(json::parse(data));
  }
  return events;
}

// The text of a chat's stream with one choice.
inline std::string streamed_text(const HttpResult& stream) {
  std::string text;
  for (json& event : events_of(stream)) {
    json& delta = event["choices"][0]["delta"];
    if (delta.contains("content")) text += delta["content"];
  }
  return text;
}

inline std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class LocalServerTest : public ::testing::Test {
 protected:
  struct Setting {
    std::uint32_t conversations = 8;
    std::uint32_t line = 16;
    bool plain = false;
    bool lockstep = false;      // passes wait for drafts, whatever the machine's speed
    bool writes_alone = false;  // a drafter that needs no activations, instead of the bundle's
    Duration pass_pace{};
    std::string key;
    PrivacyGuard::Options privacy{};
    bool page = true;
    Duration stall_timeout = std::chrono::seconds(30);
    std::size_t kept_bytes = AnswerStream::kBytesMax;
    bool outcomes_fail = false;  // the callback for outcomes throws
  };

  // Starts the API, or restarts it.
  void start(const Setting& setting) {
    api_.reset();
    server_ = LoopbackServer::start({.model = EDGEDRAFT_MODELS "/target.gguf",
                                     .bundles = {EDGEDRAFT_MODELS "/moa-tli1.gguf"},
                                     .sessions_max = 80,
                                     .pass_pace = setting.pass_pace})
                  .value();
    const auto loader = [](const BundleFile& bundle) {
      return SharedDrafters::Options{.first = [&bundle] {
        LoadedDrafter loaded{.backend = make_cpu_backend({.threads = 1}), .weights = nullptr};
        loaded.weights = bundle.load_drafter(*loaded.backend);
        return loaded;
      }};
    };
    drafters_.emplace(loader(bundle_));
    writers_.reset();
    if (setting.writes_alone) {
      alone_.emplace(
          BundleFile::open(EDGEDRAFT_MODELS "/independent.gguf", BundleUse::draft).value());
      writers_.emplace(loader(*alone_));
    }
    engine_.emplace(&*drafters_, writers_ ? &*writers_ : nullptr, &grid_);
    api_ = LocalServer::start(
               {.address = "127.0.0.1",
                .stall_timeout = setting.stall_timeout,
                .on_failure =
                    [this, expected = setting.outcomes_fail](const std::string& what) {
                      ++failures_;
                      if (!expected) ADD_FAILURE() << what;
                    }},
               {.guard = {.key = setting.key, .allow_origins = {}, .allow_hosts = {}},
                .bundle = bundle_,
                .chat = &chat_,
                .model = "test",
                .defaults = {.tokens_max = 64, .sampling = {}, .offline = OfflinePolicy::keep},
                .keep_after = std::chrono::seconds(3),
                .handover_below = 1.1,
                .privacy = setting.privacy,
                .uplink = &uplink_,
                .plug = &plug_,
                .grid = &grid_,
                .store = setting.page ? store_.get() : nullptr,
                .kept_bytes_max = setting.kept_bytes,
                .conversations = {
                    .engine = *engine_,
                    .parts = [this, setting](
                                 GenerationObserver& observer) { return parts(observer, setting); },
                    .on_outcome =
                        [this, fails = setting.outcomes_fail](const GenerationOutcome& outcome) {
                          passes_ += outcome.stats.target_calls;
                          if (fails) throw std::bad_alloc();
                        },
                    .count_max = setting.conversations,
                    .line_max = setting.line}})
               .value();
  }

  Engine::ConversationParts parts(GenerationObserver& observer, const Setting& setting) {
    GenerationOptions options{.tree = TreeShape{.breadth = 3, .depth = 4, .nodes = 12},
                              .tokens_max = 64,
                              .context_count = bundle_.context_count(),
                              .sampling = {},
                              .deadline = std::chrono::seconds(30),
                              .resync = wire::ResyncPolicy::check,
                              .resync_wait = std::chrono::hours(1),
                              .hold = std::nullopt};
    if (setting.plain) options.tree.reset();
    if (setting.plain || setting.lockstep) options.hold = Hold::lockstep;
    return {.open_link = [this](std::function<void()> wake) -> Result<std::unique_ptr<TargetLink>> {
              ClientLinkOptions link_options = server_->link_options(bundle_);
              link_options.on_event = std::move(wake);
              link_options.protocol.channel.on_sent = [this, connection =
                                                                 ++connections_](ByteView frame) {
                uplink_.add(connection, frame);
              };
              link_options.plug = &plug_;
              link_options.grid = &grid_;
              return ClientLink::open(std::move(link_options)).value();
            },
            .observer = observer,
            .is_end = [this](std::uint32_t token) { return bundle_.tokenizer().is_end(token); },
            .options = options};
  }

  void SetUp() override { start({}); }

  HttpResult post(const std::string& path, const json& body,
                  std::vector<std::pair<std::string, std::string>> headers = {}) {
    return ask(
        api_->port(),
        {.method = "POST", .path = path, .headers = std::move(headers), .body = body.dump()});
  }
  HttpResult get(const std::string& path) { return ask(api_->port(), {.path = path}); }
  HttpResult remove(const std::string& path) {
    return ask(api_->port(), {.method = "DELETE", .path = path});
  }
  // JSON replies.
  json page(const std::string& path) { return json::parse(get(path).body); }
  json posted(const std::string& path, const json& body) {
    return json::parse(post(path, body).body);
  }
  // The error of a request that must be refused with this status.
  json refused(const std::string& path, const json& body, unsigned status = 400) {
    const HttpResult result = post(path, body);
    EXPECT_EQ(result.status, status) << result.body;
    return json::parse(result.body)["error"];
  }
  json chat(const json& body) {
    const HttpResult result = post("/v1/chat/completions", body);
    EXPECT_EQ(result.status, 200u) << result.body;
    return json::parse(result.body);
  }
  std::string text(const json& body) { return chat(body)["choices"][0]["message"]["content"]; }
  double metric(const std::string& name) {
    const std::string page = get("/metrics").body;
    const std::size_t at = page.find("\nedgedraft_client:" + name + ' ');
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(page.substr(page.find(' ', at) + 1));
  }
  void wait_until_idle() {
    const Instant deadline = Clock::now() + std::chrono::seconds(10);
    while (metric("requests_processing") > 0.0 && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  BundleFile bundle_ =
      BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value();
  ChatTemplate chat_ = bundle_.chat_template({}).value();
  std::unique_ptr<LoopbackServer> server_;
  SendGrid grid_;
  std::optional<SharedDrafters> drafters_;
  std::optional<BundleFile> alone_;
  std::optional<SharedDrafters> writers_;
  std::optional<Engine> engine_;
  std::atomic<std::uint32_t> passes_ = 0;
  std::atomic<std::uint32_t> failures_ = 0;
  UplinkRecord uplink_;
  LinkPlug plug_;
  std::atomic<std::uint64_t> connections_ = 0;
  std::unique_ptr<ConversationStore> store_ = ConversationStore::open({}).value();
  std::unique_ptr<LocalServer> api_;
};

}  // namespace edgedraft::testing
