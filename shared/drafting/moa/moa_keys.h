#pragma once

#include <string_view>

// Metadata keys of a Mixture-of-Attentions bundle. bundle_parts.h has those shared with other
// bundles.
namespace edgedraft::moa_keys {

inline constexpr std::string_view kTli = "edgedraft.tli";
inline constexpr std::string_view kOutputNormEpsilon = "edgedraft.output_norm.rms_epsilon";

// Key prefixes of the layers.
inline constexpr std::string_view kSa = "edgedraft.sa.";
inline constexpr std::string_view kCa = "edgedraft.ca.";
inline constexpr std::string_view kLsa = "edgedraft.lsa.";
inline constexpr std::string_view kTarget = "edgedraft.target.";

}  // namespace edgedraft::moa_keys
