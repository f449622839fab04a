#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/runtime/recurrent_states.h"

namespace edgedraft {

class CheckpointPool;

// Copy of a sequence's recurrent states after its first length() positions. Its destructor returns
// the memory to the pool.
class StateCheckpoint {
 public:
  StateCheckpoint(CheckpointPool& pool, std::uint32_t place, std::uint32_t length,
                  std::vector<Matrix> states)
      : pool_(pool), place_(place), length_(length), states_(std::move(states)) {}
  ~StateCheckpoint();
  StateCheckpoint(const StateCheckpoint&) = delete;
  StateCheckpoint& operator=(const StateCheckpoint&) = delete;

  std::uint32_t length() const { return length_; }
  // As RecurrentStates::lay_out() places them.
  std::span<const Matrix> states() const { return states_; }

 private:
  CheckpointPool& pool_;
  std::uint32_t place_;
  std::uint32_t length_;
  std::vector<Matrix> states_;
};

// Memory, one allocation, for checkpoints of many sequences.
//
// Threads   one at a time
class CheckpointPool {
 public:
  // Throws DeviceError if out of memory. Requires  count > 0; the decoder has recurrent layers
  CheckpointPool(Backend& backend, const DecoderConfig& config, std::uint32_t count);
  CheckpointPool(const CheckpointPool&) = delete;
  CheckpointPool& operator=(const CheckpointPool&) = delete;

  std::uint32_t count() const { return count_; }
  std::uint32_t used_count() const { return count_ - static_cast<std::uint32_t>(free_.size()); }
  std::uint64_t bytes() const { return count_ * RecurrentStates::copy_bytes(config_); }

  // Copies the states of the settled positions. Null if all memory is in use. The pool must outlive
  // the checkpoint.
  std::shared_ptr<const StateCheckpoint> save(RecurrentStates& states);

 private:
  friend class StateCheckpoint;

  DecoderConfig config_;
  std::uint32_t count_;
  std::unique_ptr<Buffer> memory_;
  std::vector<std::uint32_t> free_;  // taken from the back
};

}  // namespace edgedraft
