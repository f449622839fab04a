#include "server/passes/quota.h"

#include <algorithm>

namespace edgedraft::server {

TokenBuckets::Bucket& TokenBuckets::filled(const std::string& identity, std::uint32_t per_minute,
                                           Instant now) {
  const double capacity = per_minute;
  Bucket& bucket =
      buckets_.try_emplace(identity, Bucket{.tokens = capacity, .filled = now}).first->second;
  const double refill = capacity * seconds(now - bucket.filled) / 60.0;
  bucket = {.tokens = std::min(capacity, bucket.tokens + refill), .filled = now};
  return bucket;
}

Duration TokenBuckets::wait(const std::string& identity, std::uint32_t per_minute, Instant now) {
  const double missing = 1.0 - filled(identity, per_minute, now).tokens;
  return missing > 0.0 ? from_seconds(60.0 * missing / per_minute) : Duration::zero();
}

void TokenBuckets::charge(const std::string& identity, std::uint32_t per_minute, std::uint32_t rows,
                          Instant now) {
  filled(identity, per_minute, now).tokens -= rows;
}

}  // namespace edgedraft::server
