#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client {

// Drafts on one device until it fails, then on another for the rest of the conversation. It keeps
// tokens and activations, and rebuilds the second drafter from them, so that only time is lost.
//
// The second drafter's trees may differ, because devices round differently; verification keeps the
// answer the same.
//
// Errors    DeviceError from any call, once both devices have failed
// Cost      4 bytes per token and activation value, up to the drafter's positions, until the first
//           device fails
class FallbackDrafter final : public Drafter {
 public:
  // Throws DeviceError if the device cannot hold the drafter.
  using Maker = std::function<std::unique_ptr<Drafter>()>;

  struct Options {
    Maker first;
    Maker second;
    std::function<void(const std::string& why)> on_failure;  // called once, for the first device
    // Positions of the drafters; nothing is kept beyond them.
    std::uint32_t positions_max = std::numeric_limits<std::uint32_t>::max();
    std::shared_ptr<MemoryMeter> meter = nullptr;  // counts the kept activations
  };
  explicit FallbackDrafter(Options options);

  // Maximum bytes of activations kept for building the second drafter.
  static std::uint64_t kept_bytes_max(std::uint32_t activation_cols, std::uint32_t positions_max);

  std::uint32_t token_count() const override { return drafter().token_count(); }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override { return drafter().activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override;
  void drop_activations(std::uint32_t first) override;
  // If the device fails, the second drafter continues from the growth so far.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  // Throws DeviceError if neither device has one.
  Drafter& drafter() const;
  // Calls the drafter with a change that is already recorded.
  template <class Change>
  void change(const Change& change);
  // Calls the drafter, or its successor if the device fails.
  template <class Question>
  auto ask(const Question& question);
  void fall_back(const std::string& why);
  void replay();
  void keep_rows(std::uint32_t first, std::span<const float> rows);
  void forget_rows(std::uint32_t first);

  // Rows of consecutive positions, in blocks that never move.
  static constexpr std::uint32_t kChunkRows = 256;
  struct Chunk {
    HeldMemory held;
    std::vector<float> rows;
    std::bitset<kChunkRows> is_there;
  };

  Options options_;
  std::unique_ptr<Drafter> drafter_;
  bool fallen_ = false;
  // Kept until the first device fails.
  std::vector<std::uint32_t> tokens_;
  std::vector<Chunk> chunks_;
};

}  // namespace edgedraft::client
