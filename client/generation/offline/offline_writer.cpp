#include "client/generation/offline/offline_writer.h"

#include <algorithm>

namespace edgedraft::client {

std::span<const float> OfflineWriter::next_logits(std::span<const std::uint32_t> tokens) {
  if (!drafter_) drafter_ = make_();
  const auto common = static_cast<std::uint32_t>(
      std::mismatch(read_.begin(), read_.end(), tokens.begin(), tokens.end()).first -
      read_.begin());
  if (common < read_.size()) drafter_->truncate(common);
  drafter_->append(tokens.subspan(common));
  read_.assign(tokens.begin(), tokens.end());
  return drafter_->next_logits();
}

}  // namespace edgedraft::client
