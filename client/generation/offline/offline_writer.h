#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/drafter.h"

namespace edgedraft::client {

// Writes a conversation's text while the server is away, with a drafter other than the one that
// drafts. It loads on first use, and reads the tokens added since its last use.
class OfflineWriter {
 public:
  // `make` is called once and may throw DeviceError.
  explicit OfflineWriter(std::function<std::unique_ptr<Drafter>()> make) : make_(std::move(make)) {}

  // Its logits after `tokens`; as Drafter::next_logits().
  std::span<const float> next_logits(std::span<const std::uint32_t> tokens);

 private:
  std::function<std::unique_ptr<Drafter>()> make_;
  std::unique_ptr<Drafter> drafter_;
  std::vector<std::uint32_t> read_;
};

}  // namespace edgedraft::client
