#include "shared/protocol/constant_rate.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

void ConstantRate::tick(Instant now, bool more) {
  if (!running_) {
    if (!more) return;
    running_ = true;
    count_ = 0;
    next_block_ = now;
  }
  if (due_ || now < next_block_) return;
  const bool said_all = !more && waiting_.empty() && count_ % rate_.together == 0;
  if (said_all) {
    running_ = false;
    return;
  }
  due_ = true;
  ++count_;
  // Skip blocks that the socket did not take in time.
  next_block_ = std::max(next_block_ + rate_.tick, now);
}

Instant ConstantRate::next_deadline(bool more) const {
  if (!running_) return more ? Instant::min() : Instant::max();
  return due_ ? Instant::max() : next_block_;
}

std::uint32_t ConstantRate::room() const {
  return waiting_.size() < rate_.bytes ? rate_.bytes - static_cast<std::uint32_t>(waiting_.size())
                                       : 0;
}

void ConstantRate::append(ByteView frame) {
  waiting_.insert(waiting_.end(), frame.begin(), frame.end());
}

Bytes ConstantRate::take_block() {
  EDGEDRAFT_CHECK(due_ && room() == 0);
  due_ = false;
  Bytes block(waiting_.begin(), waiting_.begin() + rate_.bytes);
  waiting_.erase(waiting_.begin(), waiting_.begin() + rate_.bytes);
  return block;
}

}  // namespace edgedraft
