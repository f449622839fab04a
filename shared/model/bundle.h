#pragma once

#include "shared/base/error.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a Mixture-of-Attentions bundle.
inline constexpr std::string_view kMoaArchitecture = "edgedraft-moa";

enum class DrafterKind : std::uint8_t {
  moa,          // moa_tensors.h
  independent,  // an ordinary decoder: decoder_tensors.h
};

// The name used in statistics and on the link.
std::string_view to_string(DrafterKind kind);

// Errors    unsupported naming an architecture that is no drafter of ours
Result<DrafterKind> drafter_kind(const GgufFile& file);

}  // namespace edgedraft
