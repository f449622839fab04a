#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// All kinds of drafters. A new kind is a folder beside this file and a line in kinds.cpp.
std::span<const DrafterKind* const> drafter_kinds();

// Adds a kind that is not built in, before the built-in ones.
//
// Requires  a new name; the kind outlives every use
// Threads   before any other thread uses kinds
void add_drafter_kind(const DrafterKind& kind);

// Null if the kind does not exist.
const DrafterKind* find_drafter_kind(std::string_view name);
// The kind of the drafter that is a part of the target's file; null if there is none.
const DrafterKind* own_drafter_kind(const DecoderConfig& target);
// True for a kind that drafts from indexes of texts.
bool drafts_from_indexes(std::string_view name);
// True for the name of a kind without a bundle of its own.
bool is_weightless_kind(std::string_view name);
// All names, as an error lists them: "a, b, c".
std::string drafter_kind_names();
// Names of the kinds without a bundle.
std::string weightless_kind_names();

// Kind of a bundle.
// Errors    unsupported naming an architecture that is not one of our drafters
Result<const DrafterKind*> drafter_kind_of(const GgufFile& file);

}  // namespace edgedraft
