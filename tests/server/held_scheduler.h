#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "server/metrics/metrics.h"
#include "server/passes/request.h"
#include "server/passes/scheduler.h"
#include "shared/base/clock.h"
#include "shared/runtime/backend.h"
#include "tests/support/toy_models.h"

namespace edgedraft::testing {
using namespace server;

// Holds a scheduler's first pass until the test releases it.
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

// Waits for the only answer to a connection without a tap.
class AwaitedAnswer : public Replies {
 public:
  void verdict(wire::Verdict) override { given_.set_value(std::nullopt); }
  void activations(wire::Activations) override { FAIL() << "activations without a tap"; }
  void refuse(std::uint32_t, Error error) override { given_.set_value(std::move(error)); }

  // Empty for a verdict.
  std::optional<Error> wait() { return given_.get_future().get(); }

 private:
  std::promise<std::optional<Error>> given_;
};

// A scheduler of a toy target whose first pass is held.
class HeldSchedulerTest : public ::testing::Test {
 protected:
  const std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  HeldPass pass_;

 private:
  const ToyDecoder toy_{1};
  const std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, 64};

 protected:
  Scheduler scheduler_{
      {.decoder = decoder_, .context_count = 64, .is_end = [](std::uint32_t) { return false; }},
      {.passes = {.sessions = {.sessions_max = 8, .kv_bytes_max = 0},
                  .pace = pass_.pace(),
                  .metrics = metrics_},
       .queue_max = 3}};
};

}  // namespace edgedraft::testing
