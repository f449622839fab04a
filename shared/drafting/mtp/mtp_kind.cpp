#include "shared/drafting/mtp/mtp_kind.h"

#include <string>
#include <utility>

#include "shared/drafting/feature_network.h"
#include "shared/drafting/mtp/mtp_model.h"
#include "shared/drafting/network_kind.h"

namespace edgedraft {
namespace {

struct Mtp {
  using Model = FeatureModel;

  static DrafterFacts facts(const Model& model) {
    return feature_facts(model, std::string(kMtpKind.name));
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    return load_feature_drafters(backend, model, positions_max);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return make_feature_tap(backend, model);
  }
};

}  // namespace

std::unique_ptr<DrafterModel> make_mtp_model(FeatureModel model) {
  return std::make_unique<NetworkModel<Mtp>>(std::move(model));
}

const DrafterKind kMtpKind = {
    .name = "mtp",
    .is_bundle = has_architecture<kMtpArchitecture>,
    .read = read_network<Mtp, read_mtp>,
    .plan_split = plan_mtp_bundle,
    .is_part_of = [](const DecoderConfig& target) { return target.other_layer_count > 0; },
    .is_from_target = is_vocabulary};

}  // namespace edgedraft
