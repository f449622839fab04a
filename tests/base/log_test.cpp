#include "shared/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace edgedraft {
namespace {

// A program whose log cannot be written goes on.
TEST(LogTest, FullDiskEndsNothing) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  ASSERT_GE(dup2(full, STDERR_FILENO), 0);
  for (const LogFormat format : {LogFormat::text, LogFormat::json}) {
    const auto log = make_logger("info", format);
    for (int i = 0; i < 1000; ++i) EXPECT_NO_THROW(log->info("line {}", i));
    EXPECT_NO_THROW(log->flush());
  }
  std::clearerr(stderr);
  EXPECT_GE(dup2(before, STDERR_FILENO), 0);
  close(before);
  close(full);
}

}  // namespace
}  // namespace edgedraft
