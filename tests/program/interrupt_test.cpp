#include "shared/program/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

namespace edgedraft {
namespace {

// Exits with two bits: interrupted after `signal`, and interrupted after clearing.
[[noreturn]] void tell_of(int signal) {
  catch_interrupts();
  if (interrupted()) std::_Exit(100);
  raise(signal);
  const int before = interrupted() ? 1 : 0;
  clear_interrupt();
  std::_Exit(before + (interrupted() ? 2 : 0));
}

TEST(InterruptDeathTest, OnlyCtrlCCanBeCleared) {
  EXPECT_EXIT(tell_of(SIGINT), ::testing::ExitedWithCode(1), "");
  EXPECT_EXIT(tell_of(SIGTERM), ::testing::ExitedWithCode(3), "");
}

TEST(InterruptDeathTest, SecondSignalExitsAtOnce) {
  const auto twice = [](int first, int second) {
    catch_interrupts();
    raise(first);
    raise(second);
    std::_Exit(0);
  };
  for (const int first : {SIGINT, SIGTERM}) {
    for (const int second : {SIGINT, SIGTERM}) {
      EXPECT_EXIT(twice(first, second), ::testing::ExitedWithCode(kInterruptedExitCode), "");
    }
  }
}

}  // namespace
}  // namespace edgedraft
