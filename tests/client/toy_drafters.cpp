#include "tests/client/toy_drafters.h"

#include <utility>

#include "shared/base/random.h"
#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/drafting/eagle3/eagle3_kind.h"
#include "shared/drafting/independent/independent_kind.h"
#include "shared/drafting/medusa/medusa_kind.h"
#include "shared/drafting/merged_drafter.h"
#include "shared/drafting/moa/moa_kind.h"
#include "shared/drafting/mtp/mtp_kind.h"
#include "shared/drafting/multistream/multistream_kind.h"
#include "shared/drafting/ngram/ngram_drafter.h"
#include "tests/support/toy_feature_drafters.h"

namespace edgedraft::testing {
namespace {

// A drafter whose trees hold a twin's proposals among doubled and random nodes.
class NoisyDrafter final : public Drafter {
 public:
  NoisyDrafter(std::unique_ptr<Drafter> twin, std::uint64_t seed)
      : twin_(std::move(twin)), random_(seed) {}
  std::uint32_t token_count() const override { return twin_->token_count(); }
  void append(std::span<const std::uint32_t> tokens) override { twin_->append(tokens); }
  void truncate(std::uint32_t count) override { twin_->truncate(count); }
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return twin_->next_logits(); }

 private:
  std::unique_ptr<Drafter> twin_;
  Random random_;
};

bool NoisyDrafter::grow(TreeGrowth& growth, const GrowthBudget&) {
  const DraftTree right = twin_->draft(growth.shape());
  growth.clear();
  growth.finish();
  std::vector<std::uint32_t> moved{0};
  for (std::uint32_t row = 1; row <= right.node_count(); ++row) {
    if (growth.candidate_count() + 3 > growth.shape().nodes) break;
    const std::uint32_t parent = moved[right.parent(row)];
    growth.add(static_cast<std::uint32_t>(random_.below(kToyVocabulary)), parent, 0.0f);
    if (random_.below(2) == 0) growth.add(right.token(row), parent, 0.0f);
    moved.push_back(growth.add(right.token(row), parent, 0.0f));
  }
  return true;
}

class HashedDrafter final : public NetworkDrafter {
 private:
  DraftNetwork& network() override { return network_; }
  TableNetwork network_{kToyVocabulary, hashed_logits(kToyVocabulary, 5)};
};

}  // namespace

std::string name_of(ToyDrafter drafter) {
  constexpr const char* kNames[kToyDrafterCount] = {
      "none",        "moa_tli0",    "moa_tli1",    "moa_tli3",     "moa_projected",
      "eagle",       "eagle3",      "mtp",         "medusa",       "medusa_tree",
      "multistream", "independent", "moa_reduced", "twin_reduced", "twin",
      "hashed",      "noisy",       "lookup",      "moa_merged"};
  return kNames[static_cast<std::size_t>(drafter)];
}

Tokens reduced_tokens() {
  Tokens tokens{kToyEndToken};
  for (std::uint32_t token = kToyEndToken + 1; token < kToyVocabulary; token += 3) {
    tokens.push_back(token);
  }
  return tokens;
}

ToyDrafters::ToyDrafters(ToyDrafter kind, const ToyDecoder& target, Backend& target_backend,
                         std::uint32_t context_count)
    : kind_(kind), target_(target), context_count_(context_count), model_(make_model()) {
  if (model_) tap_ = model_->make_tap(target_backend);
}

std::vector<std::uint32_t> ToyDrafters::states() const {
  if (!tap_) return {};
  return {tap_->states().begin(), tap_->states().end()};
}

std::unique_ptr<DrafterModel> ToyDrafters::make_model() {
  const auto independent = [this](const ToyDecoder& toy) {
    pool_ = toy.pool;
    return make_independent_model({.config = toy.config, .tensors = toy.tensors});
  };
  const auto moa = [this](const ToyMoa& toy) {
    pool_ = toy.pool;
    return make_moa_model({.config = toy.config, .tensors = toy.tensors});
  };
  switch (kind_) {
    case ToyDrafter::none:
    case ToyDrafter::hashed:
    case ToyDrafter::lookup:
      break;
    case ToyDrafter::moa_tli0:
      return moa(ToyMoa(target_, 3, 0));
    case ToyDrafter::moa_tli1:
    case ToyDrafter::moa_merged:
      return moa(ToyMoa(target_, 3, 1));
    case ToyDrafter::moa_tli3:
      return moa(ToyMoa(target_, 3, 3));
    case ToyDrafter::moa_projected:
      return moa(ToyMoa(target_, 3, 1, 1));
    case ToyDrafter::moa_reduced: {
      ToyMoa reduced(target_, 3, 1);
      reduce_vocabulary(reduced, reduced_tokens());
      return moa(reduced);
    }
    case ToyDrafter::eagle: {
      const ToyEagle toy(target_, 3);
      pool_ = toy.pool;
      return make_eagle_model({.config = toy.config, .tensors = toy.tensors});
    }
    case ToyDrafter::eagle3: {
      ToyEagle3 toy(target_.config, 3);
      pool_ = toy.pool;
      return make_eagle3_model(std::move(toy.model));
    }
    case ToyDrafter::mtp: {
      ToyMtp toy(target_, 4);
      pool_ = toy.pool;
      return make_mtp_model(std::move(toy.model));
    }
    case ToyDrafter::medusa:
    case ToyDrafter::medusa_tree: {
      const ToyMedusa toy(target_, 3, HeadOutputs::shared);
      pool_ = toy.pool;
      MedusaModel model{.config = toy.config, .tensors = toy.tensors};
      if (kind_ == ToyDrafter::medusa_tree) {
        model.config.tree = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {3, 0}, {5, 0}};
      }
      return make_medusa_model(std::move(model));
    }
    case ToyDrafter::multistream: {
      const ToyMultistream toy(target_, 3);
      pool_ = toy.pool;
      return make_multistream_model({.config = toy.config, .tensors = toy.tensors});
    }
    case ToyDrafter::independent:
      return independent(ToyDecoder(11, 1));
    case ToyDrafter::twin_reduced: {
      ToyDecoder reduced(6);
      reduce_vocabulary(reduced, reduced_tokens());
      return independent(reduced);
    }
    case ToyDrafter::twin:
    case ToyDrafter::noisy:
      return independent(target_);
  }
  return nullptr;
}

std::unique_ptr<Drafter> ToyDrafters::make(Backend& backend) const {
  if (kind_ == ToyDrafter::hashed) return std::make_unique<HashedDrafter>();
  if (kind_ == ToyDrafter::lookup) {
    return std::make_unique<NgramDrafter>(lookup_tree, context_count_);
  }
  if (!model_) return nullptr;
  std::unique_ptr<Drafter> drafter = model_->load(backend, context_count_)->make_drafter();
  if (kind_ == ToyDrafter::noisy) return std::make_unique<NoisyDrafter>(std::move(drafter), 17);
  if (kind_ != ToyDrafter::moa_merged) return drafter;
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::move(drafter));
  drafters.push_back(std::make_unique<NgramDrafter>(adaptive_tree, context_count_));
  return std::make_unique<MergedDrafter>(std::move(drafters));
}

}  // namespace edgedraft::testing
