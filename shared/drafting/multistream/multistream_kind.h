#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/multistream/multistream_tensors.h"

namespace edgedraft {

// Streams beside the target's own that guess several tokens at once, in its last layers.
//
// Source    Speculative Streaming (Bhendawade et al., 2024), lossless mode
extern const DrafterKind kMultistreamKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_multistream_model(MultistreamModel model);

}  // namespace edgedraft
