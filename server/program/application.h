#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"
#include "server/passes/scheduler.h"
#include "server/program/model_host.h"
#include "server/program/tenants.h"
#include "shared/net/listener.h"

namespace edgedraft::server {

struct ApplicationOptions {
  SignIn sign_in;                      // secrets of clients
  std::string agent;                   // program and version
  bool compresses = true;              // compresses prompts' activations
  std::vector<PassTime> pass_times{};  // measured at the start
  std::string replica{};               // of wire::Welcome
  std::string arithmetic{};            // of wire::Welcome
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  // For the expiry of tenants.
  std::function<WallTime()> wall_time = [] {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  };
};

// Authenticates clients, matches their drafters, and passes their requests to the scheduler.
class Application final : public ServerApplication {
 public:
  // Requires  the references outlive it
  Application(ModelHost& host, Scheduler& scheduler, ApplicationOptions options,
              spdlog::logger& log);

  // Sets the secrets for future sign-ins. Tenants on open connections that are no longer listed are
  // refused at their next request. Threads: any.
  void set_sign_in(SignIn sign_in);

  void handle(const ReplyHandle& reply, const PeerInfo& peer, ServerEvent event) override;
  void drained(std::uint64_t connection_id) override;
  void failed(const std::string& what) override;
  void ended(std::uint64_t connection_id, const PeerInfo& peer, const Error& reason,
             const TrafficStats& traffic) override;

 private:
  Result<Client> admit(const ReplyHandle& reply, const PeerInfo& peer, const HelloReceived& event);
  // Sets the identity of a client that presents this token.
  // Errors    unauthorized
  Result<void> identify(const PeerInfo& peer, const std::string& token, Client& client);
  // The connection's client; empty if it has not signed in.
  // Errors    unauthorized: its tenant is expired or no longer listed
  Result<std::optional<Client>> find_client(std::uint64_t connection_id);
  void on_hello(const ReplyHandle& reply, const PeerInfo& peer, const HelloReceived& event);

  ModelHost& host_;
  Scheduler& scheduler_;
  ApplicationOptions options_;
  spdlog::logger& log_;

  std::mutex mutex_;  // guards clients_ and options_.sign_in
  std::map<std::uint64_t, Client> clients_;
};

}  // namespace edgedraft::server
