#include "shared/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace edgedraft {
namespace {

constexpr int kBarColumns = 30;
constexpr auto kRedraw = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(std::string label, std::uint64_t total)
    : label_(std::move(label)),
      total_(std::max<std::uint64_t>(total, 1)),
      visible_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_draw_(start_) {}

Progress::~Progress() {
  if (visible_ && done_ > 0) std::fputs("\r\x1b[K", stderr);
}

void Progress::advance(std::uint64_t amount) {
  done_ += amount;
  if (!visible_) return;
  const Instant now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedraw;
  draw(now);
}

void Progress::draw(Instant now) {
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kBarColumns);
  const double elapsed = seconds(now - start_);
  const double left = share > 0 ? elapsed / share - elapsed : 0;
  std::fprintf(stderr, "\r%s [%.*s%.*s] %3.0f %%  %.0f s left\x1b[K", label_.c_str(), filled,
               "##############################", kBarColumns - filled,
               "..............................", share * 100, left);
}

}  // namespace edgedraft
