#include "server/program/speculator.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "server/proposers/probing_methods.h"
#include "shared/drafting/index/corpus_index.h"
#include "shared/drafting/kinds.h"

namespace edgedraft::server {

Result<SpeculatingDrafter> speculating_drafter(ModelHost& host, const std::string& name) {
  std::string names;
  HostedDrafter* found = nullptr;
  for (HostedDrafter& drafter : host.drafters()) {
    names += drafter.name + ", ";
    // A drafter that reads the target's state drafts best.
    const bool wanted =
        name == "auto" ? found == nullptr || (!found->tap && drafter.tap) : drafter.name == name;
    if (wanted) found = &drafter;
  }
  if (found != nullptr) {
    return SpeculatingDrafter{
        .name = found->name, .model = found->model.get(), .tap = found->tap.get()};
  }
  if (is_weightless_kind(name)) {
    const DrafterKind* const kind = find_drafter_kind(name);
    auto model = host.read_drafter(*kind);
    if (!model) return Error{model.error().code, "--speculate " + model.error().message};
    const DrafterModel* const read = model->get();
    return SpeculatingDrafter{.name = name,
                              .model = read,
                              .tap = nullptr,
                              .joins_hints = kind->joins_others,
                              .own = *std::move(model)};
  }
  const std::string others = weightless_kind_names() + ", " + probing_method_names();
  if (name == "auto") {
    return Error{Errc::usage,
                 "--speculate auto uses the drafter of a --bundle: give --bundle FILE.gguf, or "
                 "instead of auto one of " +
                     others};
  }
  return Error{Errc::usage, "--speculate " + name +
                                ": unknown drafter; give auto, which uses the "
                                "drafter of a --bundle, or one of " +
                                names + others};
}

Result<void> check_indexes(std::span<const std::filesystem::path> indexes,
                           const std::string& name) {
  const auto opened = CorpusIndex::open_public(indexes);
  if (!opened) return Error{opened.error().code, "--index " + opened.error().message};
  if (!indexes.empty() && !drafts_from_indexes(name.substr(name.find('+') + 1))) {
    return Error{Errc::usage,
                 "--index: no drafter uses it; omit it, or give a drafter that does with "
                 "--speculate"};
  }
  return {};
}

Result<std::optional<ProposerSource>> probing_source_of(const std::string& name, ModelHost& host,
                                                        Backend& backend) {
  const std::size_t plus = name.find('+');
  const ProbingMethodKind* const method = find_probing_method(name.substr(0, plus));
  if (method == nullptr) return std::optional<ProposerSource>();
  std::function<std::unique_ptr<SessionProposer>()> filler;
  if (plus != std::string::npos) {
    auto drafter = speculating_drafter(host, name.substr(plus + 1));
    if (!drafter) return drafter.error();
    if (!drafter->own) {
      return Error{Errc::usage, "--speculate " + name + ": " + drafter->name +
                                    " cannot be combined with a method; give a weightless "
                                    "drafter"};
    }
    filler = [source = drafter_source(backend, *drafter->model, nullptr, host.context_count())] {
      return source.make(nullptr);
    };
  }
  return std::optional(probing_source(*method, host.session_parts().is_end, std::move(filler)));
}

}  // namespace edgedraft::server
