#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/sessions/target_session.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/tap.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// A drafter beside the target, for one session. It follows the session wherever that goes, and
// reads its memory from the target's own keys and values, so it may be dropped and made again at
// any time.
class SessionDrafter {
 public:
  // `count` is of all drafters alive. Requires  the references outlive the drafter
  SessionDrafter(std::unique_ptr<DraftNetwork> network, std::shared_ptr<std::uint32_t> count);
  // One with a memory, read through `tap`.
  SessionDrafter(std::unique_ptr<MoaNetwork> network, Tap& tap,
                 std::shared_ptr<std::uint32_t> count);
  ~SessionDrafter();
  SessionDrafter(const SessionDrafter&) = delete;
  SessionDrafter& operator=(const SessionDrafter&) = delete;

  // A tree below the session's root; empty where the drafter's context is full. Throws DeviceError.
  //
  // Requires  valid(shape); the session has a root and no request
  DraftTree draft(const TargetSession& session, const TreeShape& shape);

 private:
  void follow(std::span<const std::uint32_t> tokens);
  void read_memory(const TargetSession& session);
  void read_rows(const TargetSession& session, std::uint32_t first, std::uint32_t end);

  std::unique_ptr<DraftNetwork> network_;
  MoaNetwork* memory_ = nullptr;  // the same, where it has a memory
  Tap* tap_ = nullptr;
  std::shared_ptr<std::uint32_t> count_;
  std::vector<std::uint32_t> tokens_;  // that the network has committed
  // Positions in the memory: newest first, older ones little by little.
  std::uint32_t memory_first_ = 0;
  std::uint32_t memory_end_ = 0;
  std::vector<float> rows_;
};

}  // namespace edgedraft
