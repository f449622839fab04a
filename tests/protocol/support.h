#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "shared/base/random.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// In the place of the client's: these tests vouch for every token.
class TaintLedger {
 public:
  static SafeTokens vouch(std::vector<std::uint32_t> ids) { return SafeTokens(std::move(ids)); }
};

inline SafeTokens tokens(std::vector<std::uint32_t> ids) {
  return TaintLedger::vouch(std::move(ids));
}

inline std::vector<float> random_rows(Random& random, std::size_t count) {
  std::vector<float> rows(count);
  for (float& x : rows) x = static_cast<float>(random.uniform() * 8 - 4);
  return rows;
}

}  // namespace edgedraft
