#include "shared/model/bundle.h"

#include <string>

namespace edgedraft {

std::string_view to_string(DrafterKind kind) {
  switch (kind) {
    case DrafterKind::moa:
      return "moa";
    case DrafterKind::independent:
      return "independent";
  }
  return "unknown";
}

Result<DrafterKind> drafter_kind(const GgufFile& file) {
  const auto architecture = file.architecture();
  if (!architecture) return architecture.error();
  if (*architecture == kMoaArchitecture) return DrafterKind::moa;
  if (*architecture == "llama" || *architecture == "qwen2") return DrafterKind::independent;
  return Error{Errc::unsupported,
               "the architecture '" + std::string(*architecture) + "' is no drafter that we know"};
}

}  // namespace edgedraft
