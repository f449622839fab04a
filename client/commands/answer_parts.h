#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/commands/answer_options.h"
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
#include "shared/net/server_contact.h"
#include "shared/protocol/target_link.h"
#include "shared/runtime/memory_meter.h"

namespace spdlog {
class logger;
}

namespace edgedraft {

// Parts that every command answers with: the bundle and the devices of its drafter, the engine, the
// connections to the server, and knowledge from former runs.
class AnswerParts {
 public:
  // The config outlives it.
  //
  // Errors    of the bundle and of AnswerHooks::on_bundle
  static Result<std::unique_ptr<AnswerParts>> open(const AnswerConfig& config);
  // Chooses devices for the drafter, unless decoding is plain, and for the bundle of
  // --offline-bundle, and starts the engine. Returns for how many of `conversations` at once there
  // is memory.
  //
  // Errors    of DrafterPlacement::choose, and of that bundle
  Result<std::uint32_t> start_engine(std::uint32_t conversations = 1);

  const BundleFile& bundle() const { return drafter_.bundle; }
  // Why this drafter of several; empty: there was no choice.
  const std::string& drafter_reason() const { return drafter_.why; }
  const std::shared_ptr<spdlog::logger>& log() const { return log_; }
  // Null for plain decoding.
  DrafterPlacement* placement() const { return placement_.get(); }
  // Whether the device can answer without the server.
  bool answers_here() const { return placement_ || writer_placement_; }
  const PowerSupply& power() const { return power_; }
  // What drafters hold, and what they may.
  const MemoryMeter& memory() const { return *meter_; }
  // The size of the files that they are read from.
  std::uint64_t mapped_bytes() const;

  // Requires  start_engine()
  Engine& engine() { return *engine_; }
  // A conversation for the engine, with a connection of its own. Data sent on it is recorded in
  // uplink(); `on_failure` is ClientLinkOptions'.
  Engine::ConversationParts conversation(GenerationObserver& observer,
                                         std::function<void(const Error& error)> on_failure = {});
  const UplinkRecord& uplink() const { return uplink_; }
  // What all of them hang on.
  LinkPlug& plug() { return plug_; }
  // What says when they may send.
  SendGrid& grid() { return grid_; }
  // Whether the last link found the server.
  const ServerContact& contact() const { return contact_; }
  RunKnowledge known() const;
  // Keeps what the answer taught for the next run; one that the server had no part in taught
  // nothing. Threads   one
  void keep(const AnswerOutcome& outcome);

 private:
  DrafterPlacement::Options placing(const BundleFile& bundle, std::uint32_t conversations) const;
  Result<void> open_writer();
  // Errors    of ClientLink::open
  Result<std::unique_ptr<TargetLink>> open_link(std::function<void()> wake,
                                                std::function<void(const Error& error)> on_failure);
  // What the token's file holds by now; as long as that cannot be read, what it held. Threads   any
  std::string token();

  AnswerParts(const AnswerConfig& config, SelectedDrafter drafter,
              std::unique_ptr<RunMemory> memory);

  const AnswerConfig& config_;
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
  std::string token_;  // guarded by it

  std::optional<Engine> engine_;
};

}  // namespace edgedraft
