#include "shared/net/send_grid.h"

namespace edgedraft {
namespace {

// Behind it.
Instant next(Instant now, Duration step) {
  return Instant((now.time_since_epoch() / step + 1) * step);
}

}  // namespace

Instant SendGrid::release(Instant now) const {
  const std::scoped_lock lock(mutex_);
  return holds_ > 0 || now < until_ ? next(now, kStep) : now;
}

SendGrid::Hold::Hold(SendGrid& grid) : grid_(grid) {
  const std::scoped_lock lock(grid.mutex_);
  ++grid.holds_;
}

SendGrid::Hold::~Hold() {
  const std::scoped_lock lock(grid_.mutex_);
  if (--grid_.holds_ == 0) grid_.until_ = next(Clock::now(), kEndStep);
}

}  // namespace edgedraft
