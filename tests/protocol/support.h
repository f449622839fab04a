#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "shared/base/random.h"
#include "shared/protocol/message.h"
#include "tests/support/outgoing.h"

namespace edgedraft {

inline std::vector<float> random_rows(Random& random, std::size_t count) {
  std::vector<float> rows(count);
  for (float& x : rows) x = static_cast<float>(random.uniform() * 8 - 4);
  return rows;
}

}  // namespace edgedraft
