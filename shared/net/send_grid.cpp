#include "shared/net/send_grid.h"

namespace edgedraft {
namespace {

// The last step up to `now`.
Instant last(Instant now, Duration step) {
  return Instant(now.time_since_epoch() / step * step);
}

}  // namespace

bool SendGrid::is_held(Instant now) const {
  const std::scoped_lock lock(mutex_);
  return holds_ > 0 || now < until_;
}

Instant SendGrid::release(Instant now) const {
  return is_held(now) ? last(now, kStep) + kStep : now;
}

std::optional<Instant> SendGrid::last_turn(Instant now) const {
  if (!is_held(now)) return std::nullopt;
  return last(now - kTurnAfter, kStep) + kTurnAfter;
}

SendGrid::Hold::Hold(SendGrid& grid) : grid_(grid) {
  const std::scoped_lock lock(grid.mutex_);
  ++grid.holds_;
}

SendGrid::Hold::~Hold() {
  const std::scoped_lock lock(grid_.mutex_);
  if (--grid_.holds_ == 0) grid_.until_ = last(grid_.now_(), kEndStep) + kEndStep;
}

}  // namespace edgedraft
