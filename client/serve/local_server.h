#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "client/engine/bundle_file.h"
#include "client/engine/engine.h"
#include "client/privacy/privacy_guard.h"
#include "client/privacy/uplink_record.h"
#include "client/serve/api_guard.h"
#include "client/serve/api_service.h"
#include "client/serve/completion_request.h"
#include "client/serve/kept_stream.h"
#include "shared/base/clock.h"
#include "shared/model/chat_template.h"
#include "shared/net/http/http_server.h"
#include "shared/net/link_plug.h"
#include "shared/net/send_grid.h"
#include "shared/net/server_contact.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// The local API behind its HTTP server, with the conversations that answer.
class LocalServer {
 public:
  struct Options {
    std::string address;  // numeric
    std::uint16_t port = 0;
    ApiGuard::Options guard;
    const BundleFile& bundle;  // outlives it, as do the next two
    Engine& engine;
    const ChatTemplate* chat = nullptr;  // null: chats are refused
    std::string no_chat;                 // why
    std::string model;                   // the name that clients see
    CompletionDefaults defaults;
    Duration keep_after{};
    bool device_answers = true;   // see ApiService
    double handover_below = 0.5;  // see AnswerTerms
    PrivacyGuard::Options privacy{};
    const UplinkRecord* uplink = nullptr;    // see ApiService
    LinkPlug* plug = nullptr;                // the same
    SendGrid* grid = nullptr;                // the same
    const ServerContact* contact = nullptr;  // the same
    ConversationStore* store = nullptr;      // the same
    const MemoryMeter* memory = nullptr;     // the same
    std::uint64_t mapped_bytes = 0;          // the same
    bool seeds_are_random = true;
    std::size_t kept_bytes_max = KeptStream::kBytesMax;  // see ApiService
    std::uint32_t conversations_max = 1;
    std::uint32_t line_max = 0;
    // For a part of an answer to be taken: clients on a phone may sleep.
    Duration stall_timeout = std::chrono::seconds(30);
    // Everything that a conversation needs except for its observer and on_over.
    std::function<Engine::ConversationParts(GenerationObserver& observer)> parts;
    // Both are called on threads of the server.
    std::function<void(const AnswerOutcome& outcome)> on_outcome;
    std::function<void(const std::string& what)> on_failure;
  };
  // Answers from here on.
  //
  // Errors    io: the address cannot be bound
  static Result<std::unique_ptr<LocalServer>> start(Options options);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  std::uint16_t port() const { return http_->port(); }

 private:
  explicit LocalServer(Options options);

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::optional<ApiService> service_;
  std::thread thread_;
  std::optional<HttpServer> http_;
};

}  // namespace edgedraft
