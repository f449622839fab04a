#pragma once

#include <algorithm>
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
  std::span<const float> next_logits(std::span<const std::uint32_t> tokens) {
    if (!drafter_) drafter_ = make_();
    const auto common = static_cast<std::uint32_t>(
        std::mismatch(read_.begin(), read_.end(), tokens.begin(), tokens.end()).first -
        read_.begin());
    if (common < read_.size()) drafter_->truncate(common);
    drafter_->append(tokens.subspan(common));
    read_.assign(tokens.begin(), tokens.end());
    return drafter_->next_logits();
  }

 private:
  std::function<std::unique_ptr<Drafter>()> make_;
  std::unique_ptr<Drafter> drafter_;
  std::vector<std::uint32_t> read_;
};

}  // namespace edgedraft::client
