#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/moa/moa_tensors.h"

namespace edgedraft::testing {

// Memory for random tensors. Views stay valid during its lifetime.
class TensorPool {
 public:
  explicit TensorPool(std::uint64_t seed) : random_(seed) {}

  // Normal elements of the given standard deviation, stored as `type`.
  TensorView normal(std::uint32_t rows, std::uint32_t cols, double deviation,
                    DType type = DType::f32);
  // A copy of some rows of a tensor.
  TensorView rows_of(const TensorView& tensor, const std::vector<std::uint32_t>& rows);
  // Elements around 1, as norm weights have.
  TensorView norm(std::uint32_t cols);
  LayerTensors layer(const LayerShape& shape);

 private:
  Random random_;
  std::list<Bytes> memory_;
};

// A small random decoder, different for every seed. Its logits are sharp enough that greedy answers
// vary with the prompt.
struct ToyDecoder {
  explicit ToyDecoder(std::uint64_t seed, std::uint32_t layers = 3);

  std::shared_ptr<TensorPool> pool;
  DecoderConfig config;
  DecoderTensors tensors;
};

// A random Mixture-of-Attentions drafter that fits `target`.
struct ToyMoa {
  ToyMoa(const ToyDecoder& target, std::uint64_t seed, std::uint32_t tli,
         std::uint32_t ca_kv_heads = 2);

  std::shared_ptr<TensorPool> pool;
  MoaConfig config;
  MoaTensors tensors;
};

// Keeps only the rows of `tokens` in a drafter's head, as a bundle with a reduced vocabulary does.
void reduce_vocabulary(ToyDecoder& drafter, const std::vector<std::uint32_t>& tokens);
void reduce_vocabulary(ToyMoa& drafter, const std::vector<std::uint32_t>& tokens);

inline constexpr std::uint32_t kToyVocabulary = 64;
inline constexpr std::uint32_t kToyEndToken = 2;
inline bool is_toy_end(std::uint32_t token) {
  return token == kToyEndToken;
}

}  // namespace edgedraft::testing
