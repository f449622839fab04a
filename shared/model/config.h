#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace edgedraft {

// Pairing of a head's dimensions for rotation.
enum class RopeStyle : std::uint8_t {
  halves,  // (i, i + d/2): Hugging Face, Qwen2 GGUF files
  pairs,   // (2i, 2i + 1): Llama GGUF files, whose q and k rows are permuted to match
};

struct HeadShape {
  std::uint32_t query_heads = 0;
  std::uint32_t kv_heads = 0;  // divides query_heads
  std::uint32_t head_dim = 0;  // even, <= 512

  std::uint32_t query_cols() const { return query_heads * head_dim; }
  std::uint32_t kv_cols() const { return kv_heads * head_dim; }
  // Usual factor of attention scores.
  float score_scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  bool operator==(const HeadShape&) const = default;
};

// Sizes of one decoder layer.
struct LayerShape {
  std::uint32_t dim = 0;  // residual width
  HeadShape heads;
  std::uint32_t ffn_dim = 0;
  float rms_epsilon = 1e-5f;

  bool operator==(const LayerShape&) const = default;
};

struct RopeConfig {
  float theta = 10000.0f;
  RopeStyle style = RopeStyle::halves;
  // One divisor per frequency (head_dim / 2 of them), or empty. Linear scaling is a constant
  // divisor; llama3 scaling has the factors that GGUF stores as rope_freqs.weight.
  std::vector<float> frequency_divisors;
};

// A Llama or Qwen2 decoder.
struct DecoderConfig {
  std::string architecture;  // "llama" or "qwen2"
  std::uint32_t vocabulary_count = 0;
  std::uint32_t layer_count = 0;
  std::uint32_t context_length = 0;  // positions that the model was trained for
  LayerShape layer;
  RopeConfig rope;
  // In a drafter with a reduced vocabulary: the tokens of the head's rows, ascending. Empty: row i
  // is token i.
  std::vector<std::uint32_t> draft_tokens;

  std::uint32_t head_rows() const {
    return draft_tokens.empty() ? vocabulary_count
                                : static_cast<std::uint32_t>(draft_tokens.size());
  }
};

}  // namespace edgedraft
