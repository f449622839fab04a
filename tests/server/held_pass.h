#pragma once

#include <cstdint>
#include <functional>
#include <latch>
#include <mutex>

#include "shared/base/clock.h"

namespace edgedraft::testing {

// A scheduler's first pass, which takes as long as the test wants.
class HeldPass {
 public:
  // For PassLoopOptions.
  std::function<Duration(std::uint32_t)> pace() {
    return [this](std::uint32_t) {
      std::call_once(first_, [&] {
        begun_.count_down();
        end_.wait();
      });
      return Duration::zero();
    };
  }
  void wait_begun() { begun_.wait(); }
  void end() { end_.count_down(); }

 private:
  std::latch begun_{1};
  std::latch end_{1};
  std::once_flag first_;
};

}  // namespace edgedraft::testing
