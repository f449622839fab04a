#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/gguf.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// Makes a drafter without weights for a conversation of at most that many tokens; `meter` counts
// its memory.
using MakeWeightless = std::function<std::unique_ptr<Drafter>(
    std::uint32_t positions_max, const std::shared_ptr<MemoryMeter>& meter)>;

// A model without weights, for the vocabulary of any file with a tokenizer.
//
// Errors    bad_file naming the key
Result<std::unique_ptr<DrafterModel>> make_weightless_model(const GgufFile& file,
                                                            std::string_view kind,
                                                            MakeWeightless make_drafter);

}  // namespace edgedraft
