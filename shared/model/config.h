#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/tensor/element_type.h"

namespace edgedraft {

// Pairing of a head's dimensions for rotation.
enum class RopeStyle : std::uint8_t {
  halves,  // (i, i + d/2): Hugging Face, Qwen2 GGUF files
  pairs,   // (2i, 2i + 1): Llama GGUF files, whose q and k rows are permuted to match
};

// Widest head of attention.
inline constexpr std::uint32_t kHeadDimMax = 512;

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
  std::uint32_t rotated = 0;  // dimensions of each head, even; 0: all of them
  // One divisor per frequency (rotated / 2 of them), or empty. Linear scaling is a constant
  // divisor; llama3 scaling has the factors that GGUF stores as rope_freqs.weight; YaRN's are
  // computed.
  std::vector<float> frequency_divisors;
  float magnitude = 1.0f;  // factor of cosines and sines
  // Divisors that replace the others in sequences of more than `long_after` positions; or empty.
  std::vector<float> long_divisors;
  std::uint32_t long_after = 0;

  std::uint32_t rotated_of(std::uint32_t head_dim) const {
    return rotated == 0 ? head_dim : rotated;
  }
};

// The part of a layer that mixes the positions of a sequence.
enum class Mixer : std::uint8_t {
  attention,
  delta_rule,   // a gated delta net: causal convolution, then a state per head
  convolution,  // a gated short convolution
};

// Limits of recurrent layers, which kernels rely on: taps of a convolution, size of a delta net's
// heads.
inline constexpr std::uint32_t kTapsMax = 8;
inline constexpr std::uint32_t kDeltaDimMax = 256;

// Experts per layer, and per row of it. Kernels hold a row's choice in registers or on the stack.
inline constexpr std::uint32_t kExpertsMax = 1024;
inline constexpr std::uint32_t kExpertsUsedMax = 32;

// Sizes of a gated delta net.
struct DeltaShape {
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;  // a multiple of key_heads
  std::uint32_t dim = 0;          // of every head

  std::uint32_t key_cols() const { return key_heads * dim; }
  std::uint32_t value_cols() const { return value_heads * dim; }
  std::uint32_t mixed_cols() const { return 2 * key_cols() + value_cols(); }

  bool operator==(const DeltaShape&) const = default;
};

// Sizes of a mixture of experts.
struct ExpertShape {
  std::uint32_t count = 0;  // 0: a dense feed-forward
  std::uint32_t used = 0;
  std::uint32_t ffn_dim = 0;
  std::uint32_t shared_ffn_dim = 0;  // of the expert that every row uses; 0: none
  bool beside_dense = false;         // their result is added to that of dense matrices

  bool operator==(const ExpertShape&) const = default;
};

// How one layer computes. Norms of queries and keys, norms after a mixer or feed-forward, biases
// and sinks are computed if their tensors are there (LayerParts).
struct LayerPlan {
  enum class Rope : std::uint8_t { none, main, window };  // DecoderConfig's rope or window_rope

  LayerShape shape = {};
  Mixer mixer = Mixer::attention;
  Rope rope = Rope::main;
  float attention_scale = 0.0f;  // 0: HeadShape::score_scale
  std::uint32_t window = 0;      // AttentionOp; 0: none
  // It reads the keys and values of the layer so many before it, which has heads of the same shape;
  // 0: its own.
  std::uint32_t kv_back = 0;
  bool output_gate = false;  // the sigmoid of a further product multiplies what attention gives
  Activation activation = Activation::silu;
  DeltaShape delta = {};
  std::uint32_t taps = 0;  // of the convolution of a delta net or a convolution layer
  ExpertShape experts = {};
  // Columns of the embedding that each token has for this layer, equal for all layers; 0: none.
  std::uint32_t embedding_dim = 0;

  bool operator==(const LayerPlan&) const = default;
};

// Factor of queries at position p, 1 + scale ln(1 + floor(p / length)), so that attention stays
// sharp in long contexts.
// Source    Llama 4
struct QueryGrowth {
  float scale = 0.0f;  // 0: none
  std::uint32_t length = 1;

  float at(std::uint32_t position) const {
    return 1.0f + scale * std::log1p(static_cast<float>(position / length));
  }
};

// A decoder as a plan that its family (families/family.h) makes of a file's keys.
struct DecoderConfig {
  std::string architecture;
  std::uint32_t vocabulary_count = 0;
  std::uint32_t layer_count = 0;
  std::uint32_t other_layer_count = 0;  // blocks after the last, which draft (MTP); not computed
  LayerPlan draft_layer;                // of these blocks
  std::uint32_t context_length = 0;     // positions that the model was trained for
  LayerShape layer;                     // sizes that layers share; heads of those with attention
  std::vector<LayerPlan> layers;        // empty: all as LayerPlan{layer}
  RopeConfig rope;
  RopeConfig window_rope;
  QueryGrowth query_growth;
  float embedding_scale = 1.0f;
  float logit_cap = 0.0f;  // SoftCapOp; 0: none
  // In a drafter with a reduced vocabulary: the tokens of the head's rows, ascending. Empty: row i
  // is token i.
  std::vector<std::uint32_t> draft_tokens;

  std::uint32_t head_rows() const {
    return draft_tokens.empty() ? vocabulary_count
                                : static_cast<std::uint32_t>(draft_tokens.size());
  }
  LayerPlan plan(std::uint32_t i) const {
    return layers.empty() ? LayerPlan{.shape = layer} : layers[i];
  }
  std::uint32_t layer_embedding_dim() const { return plan(0).embedding_dim; }
  // Columns of the keys of each layer that caches its own, and of its values.
  std::vector<std::uint32_t> kv_cols() const {
    std::vector<std::uint32_t> cols;
    for (std::uint32_t i = 0; i < layer_count; ++i) {
      const LayerPlan layer_plan = plan(i);
      if (layer_plan.mixer != Mixer::attention || layer_plan.kv_back != 0) continue;
      cols.push_back(layer_plan.shape.heads.kv_cols());
    }
    return cols;
  }
  // Windows of those layers, 0: none. A layer that reads another's keys has its window.
  std::vector<std::uint32_t> kv_windows() const {
    std::vector<std::uint32_t> windows;
    for (std::uint32_t i = 0; i < layer_count; ++i) {
      const LayerPlan layer_plan = plan(i);
      if (layer_plan.mixer != Mixer::attention || layer_plan.kv_back != 0) continue;
      windows.push_back(layer_plan.window);
    }
    return windows;
  }
  bool is_recurrent() const {
    for (std::uint32_t i = 0; i < layer_count; ++i) {
      if (plan(i).mixer != Mixer::attention) return true;
    }
    return false;
  }
};

}  // namespace edgedraft
