#pragma once

#include <string_view>

// The metadata of a Mixture-of-Attentions bundle, written by convert/ and read by moa_tensors.cpp.
// Each layer shape has, behind its prefix, the keys that kShape... name.
namespace edgedraft::moa_keys {

inline constexpr std::string_view kTli = "edgedraft.tli";
inline constexpr std::string_view kContextLength = "edgedraft.context_length";
inline constexpr std::string_view kTargetLayerCount = "edgedraft.target.layer_count";
inline constexpr std::string_view kOutputNormEpsilon = "edgedraft.output_norm.rms_epsilon";

inline constexpr std::string_view kSa = "edgedraft.sa.";
inline constexpr std::string_view kCa = "edgedraft.ca.";
inline constexpr std::string_view kLsa = "edgedraft.lsa.";
inline constexpr std::string_view kTarget = "edgedraft.target.";

inline constexpr std::string_view kDim = "embedding_length";
inline constexpr std::string_view kFfnDim = "feed_forward_length";
inline constexpr std::string_view kQueryHeads = "head_count";
inline constexpr std::string_view kKvHeads = "head_count_kv";
inline constexpr std::string_view kHeadDim = "key_length";
inline constexpr std::string_view kEpsilon = "rms_epsilon";
inline constexpr std::string_view kTheta = "rope.freq_base";
inline constexpr std::string_view kStyle = "rope.style";  // "pairs" or "halves"

// The divisors of a layer's frequencies, where it has any: a tensor behind the layer's tensor
// prefix
// ("sa.", "target.").
inline constexpr std::string_view kDivisors = "rope_freqs.weight";

}  // namespace edgedraft::moa_keys
