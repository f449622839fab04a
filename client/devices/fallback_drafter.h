#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/drafting/drafter.h"

namespace edgedraft {

// Drafts on one device for as long as that works, and then on another for the rest of the
// conversation: it keeps the tokens and the activations, and builds the second drafter from them
// if the first one's device fails. Nothing is lost but the time that this takes.
//
// The second drafter's trees may differ from those that the first would have grown, as devices
// round differently; verification makes the same answer of them.
//
// Errors    DeviceError, from every call, once the second device has failed as well
// Cost      4 bytes a token and value of activations, for as many positions as the context has,
//           until the first device has failed
class FallbackDrafter final : public Drafter {
 public:
  // Throws DeviceError if the device cannot hold the drafter.
  using Maker = std::function<std::unique_ptr<Drafter>()>;

  struct Options {
    Maker first;
    Maker second;
    std::function<void(const std::string& why)> on_failure;  // of the first; told once
  };
  explicit FallbackDrafter(Options options);

  // What is kept to build the second drafter from.
  std::size_t kept_bytes() const;

  std::uint32_t token_count() const override { return drafter_->token_count(); }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override { return drafter_->activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override;
  void drop_activations(std::uint32_t first) override;
  // If the device fails, the second one goes on from what the first one had found.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  // Calls the drafter with a change that is recorded already.
  template <class Change>
  void change(const Change& change);
  // Calls the drafter; where its device fails, its successor.
  template <class Question>
  auto ask(const Question& question);
  void fall_back(const std::string& why);
  void replay();
  void forget_rows(std::uint32_t first);

  Options options_;
  std::unique_ptr<Drafter> drafter_;
  bool fallen_ = false;
  // Until then.
  std::vector<std::uint32_t> tokens_;
  std::vector<float> rows_;         // of positions 0, 1, ...
  std::vector<bool> row_is_there_;  // a position each
};

}  // namespace edgedraft
