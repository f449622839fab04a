#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "shared/base/clock.h"

namespace edgedraft::server {

// Limits of one identity; 0: none.
struct Quota {
  std::uint32_t sessions_max = 0;
  std::uint32_t tokens_per_minute = 0;  // rows that passes compute for it
};

// A token bucket per identity: it holds a minute's tokens and refills steadily. Only the start of a
// request needs tokens; charges may leave a debt, since a request's rows are not known before.
//
// Threads   one
class TokenBuckets {
 public:
  // Time until the identity may begin a request; 0: now.
  // Requires  per_minute > 0
  Duration wait(const std::string& identity, std::uint32_t per_minute, Instant now);
  // Requires  per_minute > 0
  void charge(const std::string& identity, std::uint32_t per_minute, std::uint32_t rows,
              Instant now);

 private:
  struct Bucket {
    double tokens;  // negative: debt
    Instant filled;
  };
  // Bucket after its refill.
  Bucket& filled(const std::string& identity, std::uint32_t per_minute, Instant now);

  // Names come from the operator's file, which bounds their number.
  std::map<std::string, Bucket> buckets_;
};

}  // namespace edgedraft::server
