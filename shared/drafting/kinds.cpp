#include "shared/drafting/kinds.h"

#include <algorithm>
#include <vector>

#include "shared/base/check.h"
#include "shared/drafting/dflash/dflash_kind.h"
#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/drafting/eagle3/eagle3_kind.h"
#include "shared/drafting/gemma4_assistant/gemma4_assistant_kind.h"
#include "shared/drafting/independent/independent_kind.h"
#include "shared/drafting/index/retrieval_drafter.h"
#include "shared/drafting/medusa/medusa_kind.h"
#include "shared/drafting/moa/moa_kind.h"
#include "shared/drafting/mtp/mtp_kind.h"
#include "shared/drafting/multistream/multistream_kind.h"
#include "shared/drafting/ngram/ngram_drafter.h"

namespace edgedraft {
namespace {

// In the order in which kinds are offered a file or folder. The last one that reads files accepts
// any decoder, and so reports faults of files that no kind recognises.
std::vector<const DrafterKind*>& kinds() {
  static std::vector<const DrafterKind*> all = {
      &kMoaKind,      &kDflashKind,          &kEagle3Kind,      &kEagleKind,       &kMedusaKind,
      &kMtpKind,      &kGemma4AssistantKind, &kMultistreamKind, &kIndependentKind, &kLookupKind,
      &kAdaptiveKind, &kNgramKind,           &kRetrievalKind,
  };
  return all;
}

}  // namespace

std::span<const DrafterKind* const> drafter_kinds() {
  return kinds();
}

void add_drafter_kind(const DrafterKind& kind) {
  EDGEDRAFT_CHECK(!kind.name.empty() && find_drafter_kind(kind.name) == nullptr);
  kinds().insert(kinds().begin(), &kind);
}

const DrafterKind* find_drafter_kind(std::string_view name) {
  const auto found = std::ranges::find(kinds(), name, &DrafterKind::name);
  return found == kinds().end() ? nullptr : *found;
}

const DrafterKind* own_drafter_kind(const DecoderConfig& target) {
  const auto found = std::ranges::find_if(kinds(), [&](const DrafterKind* kind) {
    return kind->is_part_of != nullptr && kind->is_part_of(target);
  });
  return found == kinds().end() ? nullptr : *found;
}

bool drafts_from_indexes(std::string_view name) {
  const DrafterKind* const kind = find_drafter_kind(name);
  return kind != nullptr && kind->drafts_from_indexes();
}

bool is_weightless_kind(std::string_view name) {
  const DrafterKind* const kind = find_drafter_kind(name);
  return kind != nullptr && kind->is_bundle == nullptr;
}

std::string drafter_kind_names() {
  std::string names;
  for (const DrafterKind* kind : kinds()) {
    names += (names.empty() ? "" : ", ") + std::string(kind->name);
  }
  return names;
}

std::string weightless_kind_names() {
  std::string names;
  for (const DrafterKind* kind : kinds()) {
    if (kind->is_bundle != nullptr) continue;
    names += (names.empty() ? "" : ", ") + std::string(kind->name);
  }
  return names;
}

Result<const DrafterKind*> drafter_kind_of(const GgufFile& file) {
  const auto architecture = file.architecture();
  if (!architecture) return architecture.error();
  for (const DrafterKind* kind : kinds()) {
    if (kind->is_bundle != nullptr && kind->is_bundle(file)) return kind;
  }
  return Error{Errc::unsupported,
               "the architecture '" + std::string(*architecture) + "' is not a known drafter"};
}

}  // namespace edgedraft
