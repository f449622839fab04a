#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/commands/client_options.h"
#include "client/control/run_control.h"
#include "client/devices/power_supply.h"
#include "client/engine/bundle_file.h"
#include "client/engine/drafter_placement.h"
#include "client/engine/drafter_selection.h"
#include "client/engine/engine.h"
#include "client/engine/run_memory.h"
#include "client/privacy/uplink_record.h"
#include "shared/net/link_plug.h"
#include "shared/net/send_grid.h"
#include "shared/protocol/target_link.h"
#include "shared/runtime/memory_meter.h"

namespace spdlog {
class logger;
}

namespace edgedraft::client {

// Parts common to all answering commands: the bundle and its drafter's devices, the engine, the
// server connections, and measurements of earlier runs.
class ClientParts {
 public:
  // The config must outlive the result.
  //
  // Errors    of the bundle and of LabHooks::on_bundle
  static Result<std::unique_ptr<ClientParts>> open(const ClientSettings& config);
  // Chooses devices for the drafter, unless decoding is plain, and for the bundle of
  // --offline-bundle, then starts the engine. Returns how many of `conversations` fit in memory at
  // once.
  //
  // Errors    of DrafterPlacement::choose, and of that bundle
  Result<std::uint32_t> start_engine(std::uint32_t conversations = 1);

  const BundleFile& bundle() const { return drafter_.bundle; }
  // Reason for this drafter; empty: there was only one.
  const std::string& drafter_reason() const { return drafter_.why; }
  const std::shared_ptr<spdlog::logger>& log() const { return log_; }
  // Null for plain decoding.
  DrafterPlacement* placement() const { return placement_.get(); }
  // True if the device can answer without the server.
  bool answers_here() const { return placement_ || writer_placement_; }
  const PowerSupply& power() const { return power_; }
  // Memory held by drafters, and its limit.
  const MemoryMeter& memory() const { return *meter_; }
  // Size of the files that drafters are read from.
  std::uint64_t mapped_bytes() const;

  // Requires  start_engine()
  Engine& engine() { return *engine_; }
  // Returns a conversation for the engine with its own connection. uplink() records the data sent
  // on it; `on_failure` is that of ClientLinkOptions.
  Engine::ConversationParts conversation(GenerationObserver& observer,
                                         std::function<void(const Error& error)> on_failure = {});
  // A connection of its own, which connects once it is told to.
  //
  // Errors    of ClientLink::open
  Result<std::unique_ptr<TargetLink>> open_link(std::function<void()> wake,
                                                std::function<void(const Error& error)> on_failure);
  const UplinkRecord& uplink() const { return uplink_; }
  // Connects or disconnects all links.
  LinkPlug& plug() { return plug_; }
  // Sets the times at which links may send.
  SendGrid& grid() { return grid_; }
  // Server contact of the latest link.
  const ServerContact& contact() const { return contact_; }
  RunKnowledge known() const;
  // Keeps an answer's measurements for later runs, if the server took part in it. Threads   one
  void keep(const GenerationOutcome& outcome);

 private:
  DrafterPlacement::Options placing(const BundleFile& bundle, std::uint32_t conversations) const;
  Result<void> open_writer();
  // Returns the token file's content, or the previous content if it cannot be read. Threads   any
  std::string token();

  ClientParts(const ClientSettings& config, SelectedDrafter drafter,
              std::unique_ptr<RunMemory> memory);

  const ClientSettings& config_;
  SelectedDrafter drafter_;
  std::shared_ptr<spdlog::logger> log_;
  // Null if nothing is learned.
  std::unique_ptr<RunMemory> memory_;
  std::shared_ptr<MemoryMeter> meter_;
  std::unique_ptr<DrafterPlacement> placement_;
  std::optional<BundleFile> writer_;
  std::unique_ptr<DrafterPlacement> writer_placement_;
  PowerSupply power_;
  UplinkRecord uplink_;
  LinkPlug plug_;
  SendGrid grid_;
  ServerContact contact_;
  std::uint64_t last_connection_ = 0;

  std::mutex token_mutex_;
  std::string token_;  // guarded by token_mutex_

  std::optional<Engine> engine_;
};

}  // namespace edgedraft::client
