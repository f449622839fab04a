// Host allocation failures of the server: one client pays, and the next is served.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <new>

#include "tests/server/held_scheduler.h"
#include "tests/server/toy_session.h"

namespace edgedraft::server {
namespace {

using testing::AwaitedAnswer;
using testing::client_of;

// Allocation fails for this client's verdicts.
class NoVerdict final : public AwaitedAnswer {
 public:
  void verdict(wire::Verdict) override { throw std::bad_alloc(); }
};

// Allocation fails even for a refusal.
class NoWord final : public Replies {
 public:
  void verdict(wire::Verdict) override { throw std::bad_alloc(); }
  void activations(wire::Activations) override { throw std::bad_alloc(); }
  void refuse(std::uint32_t, Error) override { throw std::bad_alloc(); }
};

// Throws while the server checks which runs are paused, outside any client's request.
class NoLook final : public Replies {
 public:
  void verdict(wire::Verdict) override { fails_ = true; }
  void activations(wire::Activations) override { FAIL() << "activations without a tap"; }
  void refuse(std::uint32_t, Error error) override { refused_.set_value(std::move(error)); }
  bool full() const override { return fails_ ? throw std::bad_alloc() : false; }

  Error wait_refused() { return refused_.get_future().get(); }

 private:
  bool fails_ = false;
  std::promise<Error> refused_;
};

// Its prompt's verdict and rows, then its run's answer.
class RunsAnswer final : public Replies {
 public:
  void verdict(wire::Verdict) override { verdict_.set_value(); }
  void activations(wire::Activations) override { rows_.set_value(); }
  void refuse(std::uint32_t, Error error) override { refused_.set_value(std::move(error)); }

  void wait_prompt_answered() {
    verdict_.get_future().get();
    rows_.get_future().get();
  }
  Error wait_refused() { return refused_.get_future().get(); }

 private:
  std::promise<void> verdict_;
  std::promise<void> rows_;
  std::promise<Error> refused_;
};

class HostMemoryTest : public testing::HeldSchedulerTest {
 protected:
  HostMemoryTest() { pass_.end(); }

  void ask(const Client& client, const wire::RunTerms& run = {}) {
    scheduler_.post(client, wire::Prefill{.round = 1, .tokens = {5, 6}, .run = run});
  }
  // On a new connection.
  void expect_service() {
    const auto answer = std::make_shared<AwaitedAnswer>();
    ask(client_of(++last_id_, answer));
    EXPECT_FALSE(answer->wait());
  }

  std::uint8_t last_id_ = 100;
};

TEST_F(HostMemoryTest, FailedAnswerCostsOnlyItsSession) {
  const auto unlucky = std::make_shared<NoVerdict>();
  ask(client_of(1, unlucky));
  const auto refusal = unlucky->wait();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, Errc::refused);
  EXPECT_EQ(refusal->message, std::bad_alloc().what());
  EXPECT_EQ(metrics_->device_failures.value(), 1u);

  const auto again = std::make_shared<AwaitedAnswer>();
  scheduler_.post(client_of(1, again), wire::Prefill{.round = 2, .base_length = 3});
  EXPECT_EQ(again->wait().value().code, Errc::session_unknown);
  expect_service();
}

TEST_F(HostMemoryTest, FailedRefusalLeavesOthersServed) {
  ask(client_of(1, std::make_shared<NoWord>()));
  expect_service();
}

// If the host has no memory for its rows, or the device is lost.
TEST_F(HostMemoryTest, FailedTapCostsOnlyItsSession) {
  for (const bool is_device : {false, true}) {
    // Fails from its second read on: a prompt's rows arrive, a run's do not.
    testing::TapBy tap(8, [=, read = false](std::uint32_t, std::span<float> rows) mutable {
      if (read && is_device) throw DeviceError("the device is lost");
      if (std::exchange(read, true)) throw std::bad_alloc();
      std::ranges::fill(rows, 0.0f);
    });
    const std::uint64_t connection = is_device ? 2 : 1;
    const auto answer = std::make_shared<RunsAnswer>();
    ask(client_of(connection, answer, &tap),
        {.credit = 10, .rows = true, .hold = wire::Hold::lockstep});
    answer->wait_prompt_answered();
    scheduler_.hints(connection, {.round = 1, .complete = true, .position = 3});
    EXPECT_EQ(answer->wait_refused().code, Errc::refused);
    const auto again = std::make_shared<AwaitedAnswer>();
    scheduler_.post(client_of(connection, again), wire::Prefill{.round = 2, .base_length = 3});
    EXPECT_EQ(again->wait().value().code, Errc::session_unknown);
    expect_service();
  }
}

TEST_F(HostMemoryTest, FailureOutsideRequestsRefusesAllAndServesNext) {
  const auto unlucky = std::make_shared<NoLook>();
  ask(client_of(1, unlucky), {.credit = 10});
  EXPECT_EQ(unlucky->wait_refused().code, Errc::refused);
  expect_service();
  EXPECT_EQ(metrics_->requests_paused.value(), 0u);
}

}  // namespace
}  // namespace edgedraft::server
