#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/packed.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/expert_groups.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// Bytes of packed experts that a backend keeps: at most `wanted` (0: half of the machine's memory)
// and half of the meter's limit.
std::uint64_t expert_bytes_max(std::uint64_t wanted, const MemoryMeter& meter);

class ExpertStacks;

// A stack of experts in panels, each packed when a call first chooses it. Memory of the others is
// reserved, but not used.
class ExpertStack final : public Buffer {
 public:
  ~ExpertStack() override;

  // The first expert's panels; those of the others follow. Valid for experts given to `use`.
  const std::byte* panels() const { return memory_->bytes().data(); }
  std::size_t bytes_count() const { return memory_->bytes().size(); }

 private:
  friend class ExpertStacks;
  enum class State : std::uint8_t { absent, idle, recent, in_call };

  ExpertStack() = default;

  std::shared_ptr<ExpertStacks> stacks_;
  HeldMemory held_;
  std::uint64_t held_bytes_ = 0;
  std::unique_ptr<HostBuffer> memory_;  // not counted by a meter
  cpu::PackArgs first_{};               // of the first expert
  std::size_t file_step_ = 0;           // of experts, in bytes
  std::size_t expert_bytes_ = 0;        // packed
  mutable std::vector<State> states_;
};

// The stacks of a backend and the bound on their packed experts. Beyond it, experts that were not
// chosen lately are dropped, and packed again from the file if they are chosen.
class ExpertStacks : public std::enable_shared_from_this<ExpertStacks> {
 public:
  ExpertStacks(std::shared_ptr<MemoryMeter> meter, std::uint64_t bytes_max)
      : meter_(std::move(meter)), bytes_max_(bytes_max) {}

  // `step`: distance of experts in the file, in bytes.
  // Requires  the file's bytes at `first.weight` outlive the stack
  std::unique_ptr<ExpertStack> add(const cpu::PackArgs& first, std::size_t experts,
                                   std::size_t step);

  // Makes room for the blocks' experts and returns those that must be packed before the call; the
  // list is valid until the next call. One call may exceed the bound.
  std::span<const std::uint32_t> use(const ExpertStack& stack,
                                     std::span<const ExpertGroups::Block> blocks);

  // Packs panels begin..end-1, counted over the experts of the list.
  static void pack(const ExpertStack& stack, std::span<const std::uint32_t> experts,
                   std::size_t begin, std::size_t end);

 private:
  friend class ExpertStack;
  void remove(ExpertStack& stack);
  void make_room(std::uint64_t bytes);
  void drop(ExpertStack& stack, std::size_t expert);

  std::shared_ptr<MemoryMeter> meter_;
  std::uint64_t bytes_max_;
  std::uint64_t held_bytes_ = 0;    // counted by the meter
  std::uint64_t packed_bytes_ = 0;  // of experts now packed
  std::vector<ExpertStack*> all_;
  // Where the search for an expert to drop goes on.
  std::size_t next_stack_ = 0;
  std::size_t next_expert_ = 0;
  std::vector<std::uint32_t> missing_;
};

}  // namespace edgedraft
