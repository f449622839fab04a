#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/runtime/decoder.h"

namespace edgedraft::bench {

// Passes behind a context, always over the same slots.
class Passes {
 public:
  struct Options {
    std::uint32_t context;
    std::uint32_t sessions;    // that share a pass, each behind a context of its own
    std::uint32_t page_slots;  // of the pages that keys and values lie in; 0: in a row
    DType kv_type;
  };
  Passes(Decoder& decoder, const Options& options);

  // One pass over `width` rows of each session, in a chain, logits of all; waits for it.
  // Requires  no more than kMaskRowsMax rows
  void run_and_wait(std::uint32_t width);
  // The first row's logits do not depend on the others. Throws a Failure where they do.
  void check(std::uint32_t width);

  double prompt_seconds(std::uint32_t count);
  // Decodes `count` tokens greedily, one row a pass, and returns how many of them a pass over 64 of
  // them chooses differently.
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
  std::vector<KvCache> caches_;  // a session each
  std::vector<AncestorMask> masks_ = causal_masks(kMaskRowsMax);
};

}  // namespace edgedraft::bench
