#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"
#include "server/passes/scheduler.h"
#include "server/program/model_host.h"
#include "shared/net/listener.h"

namespace edgedraft::server {

struct ApplicationOptions {
  std::optional<std::string> token;    // bearer token that clients must present
  std::string agent;                   // program and version
  bool compresses = true;              // compresses prompts' activations
  std::vector<PassTime> pass_times{};  // measured at the start
  std::string replica{};               // of wire::Welcome
  std::string arithmetic{};            // of wire::Welcome
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

// Authenticates clients, matches their drafters, and passes their requests to the scheduler.
class Application final : public ServerApplication {
 public:
  // Requires  the references outlive it
  Application(ModelHost& host, Scheduler& scheduler, ApplicationOptions options,
              spdlog::logger& log);

  // Sets the token for future sign-ins. Threads: any.
  void set_token(std::optional<std::string> token);

  void handle(const ReplyHandle& reply, const PeerInfo& peer, ServerEvent event) override;
  void drained(std::uint64_t connection_id) override;
  void failed(const std::string& what) override;
  void ended(std::uint64_t connection_id, const PeerInfo& peer, const Error& reason,
             const TrafficStats& traffic) override;

 private:
  Result<Client> admit(const ReplyHandle& reply, const PeerInfo& peer, const HelloReceived& event);
  std::string identity_of(const PeerInfo& peer, const std::string& token);
  bool knows_token(const std::string& token);
  void on_hello(const ReplyHandle& reply, const PeerInfo& peer, const HelloReceived& event);

  ModelHost& host_;
  Scheduler& scheduler_;
  ApplicationOptions options_;
  spdlog::logger& log_;

  std::mutex mutex_;  // guards clients_ and the token
  std::map<std::uint64_t, Client> clients_;
};

}  // namespace edgedraft::server
