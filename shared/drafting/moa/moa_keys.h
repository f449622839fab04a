#pragma once

#include <string_view>

// The metadata of a Mixture-of-Attentions bundle, written by convert/ and read by moa_tensors.cpp.
// What it shares with other bundles is in bundle_parts.h.
namespace edgedraft::moa_keys {

inline constexpr std::string_view kTli = "edgedraft.tli";
inline constexpr std::string_view kOutputNormEpsilon = "edgedraft.output_norm.rms_epsilon";

// The prefixes of the layers' keys.
inline constexpr std::string_view kSa = "edgedraft.sa.";
inline constexpr std::string_view kCa = "edgedraft.ca.";
inline constexpr std::string_view kLsa = "edgedraft.lsa.";
inline constexpr std::string_view kTarget = "edgedraft.target.";

}  // namespace edgedraft::moa_keys
