#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/runtime/decoder.h"

namespace edgedraft::bench {

// Passes after a context, always over the same slots.
class Passes {
 public:
  struct Options {
    std::uint32_t context;
    std::uint32_t sessions;    // that share a pass, each with its own context
    std::uint32_t page_slots;  // page size of keys and values; 0: contiguous
    DType kv_type;
  };
  Passes(Decoder& decoder, const Options& options);

  // Runs one pass over a chain of `width` rows per session, with logits of all rows, and waits.
  // Requires  at most kMaskRowsMax rows
  void run_and_wait(std::uint32_t width);
  // Checks that the first row's logits do not depend on the others. Throws a Failure if they do.
  void check(std::uint32_t width);

  double prompt_seconds(std::uint32_t count);
  // Decodes `count` tokens greedily, one row per pass. Returns how many of them a pass over 64 rows
  // chooses differently.
  std::uint32_t mismatches(std::uint32_t count);

 private:
  Matrix run(std::uint32_t width, std::size_t sessions);
  KvCache make_cache();
  void fill(KvCache& cache);
  std::vector<std::uint32_t> tokens(std::uint32_t count, std::uint32_t seed) const;
  std::vector<float> first_row(std::uint32_t width, std::size_t sessions);

  Decoder& decoder_;
  Options options_;
  std::unique_ptr<KvPool> pool_;
  std::vector<KvCache> caches_;  // one per session
  std::vector<AncestorMask> masks_ = causal_masks(kMaskRowsMax);
};

}  // namespace edgedraft::bench
