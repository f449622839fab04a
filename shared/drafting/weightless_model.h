#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// A model without weights, for the vocabulary of any file with a tokenizer: only how a drafter is
// made, for a conversation of at most so many tokens.
//
// Errors    bad_file naming the key
Result<std::unique_ptr<DrafterModel>> make_weightless_model(
    const GgufFile& file, std::string_view kind,
    std::function<std::unique_ptr<Drafter>(std::uint32_t positions_max)> make_drafter);

}  // namespace edgedraft
