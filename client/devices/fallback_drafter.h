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

namespace edgedraft {

// Drafts on one device for as long as that works, and then on another for the rest of the
// conversation: it keeps the tokens and the activations, and builds the second drafter from them
// if the first one's device fails. Nothing is lost but the time that this takes.
//
// The second drafter's trees may differ from those that the first would have grown, as devices
// round differently; verification makes the same answer of them.
//
// Errors    DeviceError, from every call, once the second device has failed as well
// Cost      4 bytes a token and value of activations, for as many positions as the drafter has,
//           until the first device has failed
class FallbackDrafter final : public Drafter {
 public:
  // Throws DeviceError if the device cannot hold the drafter.
  using Maker = std::function<std::unique_ptr<Drafter>()>;

  struct Options {
    Maker first;
    Maker second;
    std::function<void(const std::string& why)> on_failure;  // of the first; told once
    // That the drafters have: nothing is kept of others.
    std::uint32_t positions_max = std::numeric_limits<std::uint32_t>::max();
    std::shared_ptr<MemoryMeter> meter = nullptr;  // counts the activations that are kept
  };
  explicit FallbackDrafter(Options options);

  // The most bytes of activations that are kept to build the second drafter from.
  static std::uint64_t kept_bytes_max(std::uint32_t activation_cols, std::uint32_t positions_max);

  std::uint32_t token_count() const override { return drafter().token_count(); }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override { return drafter().activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override;
  void drop_activations(std::uint32_t first) override;
  // If the device fails, the second one goes on from what the first one had found.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  // Throws DeviceError if neither device has one.
  Drafter& drafter() const;
  // Calls the drafter with a change that is recorded already.
  template <class Change>
  void change(const Change& change);
  // Calls the drafter; where its device fails, its successor.
  template <class Question>
  auto ask(const Question& question);
  void fall_back(const std::string& why);
  void replay();
  void keep_rows(std::uint32_t first, std::span<const float> rows);
  void forget_rows(std::uint32_t first);

  // Rows of positions that follow each other. What there is of them never moves.
  static constexpr std::uint32_t kStretchRows = 256;
  struct Stretch {
    HeldMemory held;
    std::vector<float> rows;
    std::bitset<kStretchRows> is_there;
  };

  Options options_;
  std::unique_ptr<Drafter> drafter_;
  bool fallen_ = false;
  // Until then.
  std::vector<std::uint32_t> tokens_;
  std::vector<Stretch> stretches_;
};

}  // namespace edgedraft
