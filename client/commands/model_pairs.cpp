#include "client/commands/model_pairs.h"

#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/kinds.h"

namespace edgedraft::client {
namespace {

ModelPair match_bundle(const InspectedModel& target, const InspectedModel& bundle) {
  ModelPair pair{.target = target.path,
                 .drafter = bundle.path,
                 .state = ModelPair::State::ready,
                 .is_bundle = true};
  if (bundle.facts.target != target.facts.fingerprint) {
    pair.reason =
        "made for another target; make the bundle again with `edgedraft convert --bundle`";
  } else if (!bundle.drafter) {
    pair.reason = bundle.facts.failure->message;
  } else if (const auto fits = check_target(bundle.drafter->facts(), target.decoder->config);
             !fits) {
    pair.reason = fits.error().message;
  }
  if (!pair.reason.empty()) pair.state = ModelPair::State::mismatch;
  return pair;
}

ModelPair match_model(const InspectedModel& target, const InspectedModel& model) {
  ModelPair pair{.target = target.path,
                 .drafter = model.path,
                 .state = ModelPair::State::mismatch,
                 .is_bundle = false};
  for (const DrafterKind* kind : drafter_kinds()) {
    if (kind->takes_model == nullptr) continue;
    const auto taken = kind->takes_model(target.file, model.file);
    if (taken) {
      pair.state = ModelPair::State::convertible;
      pair.reason.clear();
      break;
    }
    pair.reason = taken.error().message;
  }
  return pair;
}

}  // namespace

std::vector<ModelPair> match_models(const std::vector<InspectedModel>& models) {
  std::vector<ModelPair> pairs;
  for (const InspectedModel& target : models) {
    if (!target.decoder) continue;
    for (const InspectedModel& other : models) {
      if (other.is_bundle()) {
        pairs.push_back(match_bundle(target, other));
      } else if (other.decoder && other.facts.parameters < target.facts.parameters) {
        pairs.push_back(match_model(target, other));
      }
    }
  }
  return pairs;
}

}  // namespace edgedraft::client
