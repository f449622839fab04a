#include "shared/drafting/eagle3/eagle3_kind.h"

#include <string>
#include <utility>

#include "shared/drafting/eagle3/eagle3_bundle.h"
#include "shared/drafting/network_kind.h"

namespace edgedraft {
namespace {

struct Eagle3 {
  using Model = Eagle3Model;

  static DrafterFacts facts(const Model& model) {
    const std::string name(kEagle3Kind.name);
    DrafterFacts facts = feature_facts(model.network, name);
    facts.tap = name;
    facts.target.dim = model.projection.target_dim;
    return facts;
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    return load_feature_drafters(backend, model.network, positions_max);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return std::make_unique<FusedTap>(backend, model.projection);
  }
};

}  // namespace

std::unique_ptr<DrafterModel> make_eagle3_model(Eagle3Model model) {
  return std::make_unique<NetworkModel<Eagle3>>(std::move(model));
}

const DrafterKind kEagle3Kind = {.name = "eagle3",
                                 .is_bundle = has_architecture<kEagle3Architecture>,
                                 .read = read_network<Eagle3, read_eagle3>,
                                 .is_source = is_eagle3_source,
                                 .plan_bundle = plan_eagle3_bundle,
                                 .is_from_target = is_vocabulary};

}  // namespace edgedraft
