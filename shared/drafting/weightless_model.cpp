#include "shared/drafting/weightless_model.h"

#include <algorithm>
#include <string>
#include <utility>

namespace edgedraft {
namespace {

// Longer than any current model's context.
constexpr std::uint32_t kContextLength = 1u << 20;

class WeightlessWeights final : public DrafterWeights {
 public:
  WeightlessWeights(MakeWeightless make, std::uint32_t positions_max,
                    std::shared_ptr<MemoryMeter> meter)
      : make_(std::move(make)), positions_max_(positions_max), meter_(std::move(meter)) {}

  std::unique_ptr<Drafter> make_drafter() override { return make_(positions_max_, meter_); }
  std::uint64_t drafter_bytes() const override { return 0; }

 private:
  MakeWeightless make_;
  std::uint32_t positions_max_;
  std::shared_ptr<MemoryMeter> meter_;
};

class WeightlessModel final : public DrafterModel {
 public:
  WeightlessModel(MakeWeightless make, DrafterFacts facts)
      : make_(std::move(make)), facts_(std::move(facts)) {}

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend& backend,
                                       std::uint32_t positions_max) const override {
    return std::make_unique<WeightlessWeights>(make_, positions_max, backend.meter());
  }

 private:
  MakeWeightless make_;
  DrafterFacts facts_;
};

}  // namespace

Result<std::unique_ptr<DrafterModel>> make_weightless_model(const GgufFile& file,
                                                            std::string_view kind,
                                                            MakeWeightless make_drafter) {
  const auto texts = file.get_strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  const auto architecture = file.architecture();
  if (!architecture) return architecture.error();
  const auto context =
      file.get_u32_or(std::string(*architecture) + ".context_length", kContextLength);
  if (!context) return context.error();
  return std::make_unique<WeightlessModel>(
      std::move(make_drafter),
      DrafterFacts{.vocabulary_count = static_cast<std::uint32_t>(texts->size()),
                   .context_count = std::min(*context, kContextLength),
                   .pace_name = std::string(kind)});
}

}  // namespace edgedraft
