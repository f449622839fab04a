#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// All kinds of drafters: the one place that knows them. A new kind is a folder beside this file and
// a line in kinds.cpp.
std::span<const DrafterKind* const> drafter_kinds();

// Adds a kind that is not built in, before those that are.
//
// Requires  a name that no kind has; the kind outlives every use
// Threads   before any other thread asks for kinds
void add_drafter_kind(const DrafterKind& kind);

// Null if there is no such kind.
const DrafterKind* find_drafter_kind(std::string_view name);
// Whether there is one that drafts from indexes of texts.
bool drafts_from_indexes(std::string_view name);
// Whether that is the name of a kind that needs no bundle of its own.
bool is_weightless_kind(std::string_view name);
// All names, as an error lists them: "a, b, c".
std::string drafter_kind_names();
// The same of the kinds that need no bundle.
std::string weightless_kind_names();

// The kind that a bundle is of.
// Errors    unsupported naming an architecture that is no drafter of ours
Result<const DrafterKind*> drafter_kind_of(const GgufFile& file);

}  // namespace edgedraft
