#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/runtime/decoder.h"

namespace edgedraft::bench {

// Passes behind a context, always over the same slots.
class Passes {
 public:
  // `page_slots`: of the pages that keys and values lie in; 0: in a row.
  Passes(Decoder& decoder, std::uint32_t context, std::uint32_t page_slots, DType kv_type);

  // One pass over `width` rows in a chain, logits of all; waits for it.
  void run_and_wait(std::uint32_t width);
  // The first row's logits do not depend on the others. Throws a Failure where they do.
  void check(std::uint32_t width);

  double prompt_seconds(std::uint32_t count);
  // Decodes `count` tokens greedily, one row a pass, and returns how many of them a pass over 64 of
  // them chooses differently.
  std::uint32_t mismatches(std::uint32_t count);

 private:
  Matrix run(std::uint32_t width);
  KvCache make_cache();
  void fill(std::uint32_t context);
  std::vector<std::uint32_t> tokens(std::uint32_t count, std::uint32_t seed) const;
  std::vector<float> first_row(std::uint32_t width);

  Decoder& decoder_;
  DType kv_type_;
  std::unique_ptr<KvPool> pool_;
  KvCache cache_;
  std::vector<AncestorMask> masks_ = causal_masks(kMaskRowsMax);
};

}  // namespace edgedraft::bench
