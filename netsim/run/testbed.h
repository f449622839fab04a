#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "netsim/drivers/link_driver.h"
#include "netsim/drivers/process.h"
#include "netsim/run/experiment.h"
#include "netsim/run/plan.h"
#include "shared/base/clock.h"

namespace edgedraft::netsim {

// Result of a trial, one run per client.
struct TrialOutcome {
  std::vector<nlohmann::ordered_json> runs;
  std::vector<nlohmann::ordered_json> cycles;
  std::optional<std::string> failure;  // a client's own error message
};

// A link with a server at one end, and clients started on demand at the other.
class Testbed {
 public:
  struct Parts {
    const Experiment& experiment;
    const NetworkProfile& network;
    const DeviceProfile& device;
    std::uint64_t seed;
    const std::filesystem::path& program;  // edgedraft-lab, both ends
    std::unique_ptr<LinkDriver> link;
    std::filesystem::path work;  // a folder for temporary files
    std::function<bool()> cancelled;
    Duration server_start_max = std::chrono::seconds(60);  // until it is ready
  };

  // Starts the server, and one more per drafter that arms let a server use.
  // Errors    link_down with the server's message, io, cancelled
  static Result<std::unique_ptr<Testbed>> open(Parts parts);

  LinkDriver& link() { return *parts_.link; }
  // Sets the round trip added to the times of arms beside the server.
  void set_round_trip(double milliseconds) { round_trip_ms_ = milliseconds; }

  // Errors    link_down, io: the link or the server is gone; cancelled
  Result<TrialOutcome> run(const Trial& trial);

 private:
  struct Client;

  explicit Testbed(Parts parts) : parts_(std::move(parts)) {}
  struct Server {
    Process process;
    std::filesystem::path errors;
    std::size_t errors_read = 0;  // bytes, by late_passes()
    std::string address;          // at its own end
    std::string device_address;   // as the device reaches it
    std::string pin;
  };

  // One server for all arms without server-side drafting, and one per server-side drafter.
  Result<void> start_servers();
  Result<Server> start_server(const std::string& speculates_with);
  Server& server_of(const Arm& arm);
  Result<std::vector<std::string>> client_command(const Arm& arm, const Trial& trial,
                                                  const Client& client);
  Result<void> prepare(Client& client, const Arm& arm, const Trial& trial);
  Result<void> start(Client& client);
  Result<std::filesystem::path> plain_answer(const Prompt& prompt);
  // Passes that exceeded their pace since the last call.
  static std::uint32_t late_passes(Server& server);
  Result<void> check_alive();
  Result<void> follow(const Trial& trial, std::vector<Client>& clients,
                      nlohmann::ordered_json& events);

  Parts parts_;
  std::map<std::string, Server> servers_;  // by drafter; "" for none
  double round_trip_ms_ = 0;
};

}  // namespace edgedraft::netsim
