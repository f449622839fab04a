#pragma once

#include <cstdint>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft::testing {

// A state's rows in a cache, from position `first` on.
inline std::vector<float> states_of(Backend& backend, const KvCache& cache, std::uint32_t state,
                                    std::uint32_t first, std::uint32_t count) {
  std::vector<float> values;
  while (count > 0) {
    const CacheRows run = cache.states(state).run(first, count);
    std::vector<float> some(std::size_t{run.rows} * run.cols);
    backend.read_cache(run, some);
    values.insert(values.end(), some.begin(), some.end());
    first += run.rows;
    count -= run.rows;
  }
  return values;
}

}  // namespace edgedraft::testing
