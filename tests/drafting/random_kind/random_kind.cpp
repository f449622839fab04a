#include "tests/drafting/random_kind/random_kind.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/check.h"
#include "shared/drafting/network_drafter.h"
#include "shared/model/fingerprint.h"
#include "tests/support/table_network.h"

namespace edgedraft::testing {
namespace {

constexpr std::string_view kArchitecture = "edgedraft-test-random";
constexpr std::uint32_t kCols = 2;  // each row holds its position twice
std::uint32_t rows_received = 0;

class RandomDrafter final : public NetworkDrafter {
 public:
  explicit RandomDrafter(std::uint32_t vocabulary_count)
      : network_(vocabulary_count, hashed_logits(vocabulary_count, 7)) {}

  std::uint32_t activation_cols() const override { return kCols; }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto position = static_cast<float>(first + i / kCols);
      EDGEDRAFT_CHECK(rows[i] >= 0.99f * position && rows[i] <= 1.01f * position);
    }
    rows_received += static_cast<std::uint32_t>(rows.size() / kCols);
  }

 private:
  DraftNetwork& network() override { return network_; }

  TableNetwork network_;
};

class RandomTap final : public Tap {
 public:
  explicit RandomTap(std::uint32_t cols) : groups_{cols} {}

  std::span<const std::uint32_t> scale_groups() const override { return groups_; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override {
    EDGEDRAFT_CHECK(first + count <= cache.length() && rows.size() == count * kCols);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(first + i / kCols);
  }

 private:
  std::vector<std::uint32_t> groups_;
};

class RandomWeights final : public DrafterWeights {
 public:
  explicit RandomWeights(std::uint32_t vocabulary_count) : vocabulary_count_(vocabulary_count) {}

  std::unique_ptr<Drafter> make_drafter() override {
    return std::make_unique<RandomDrafter>(vocabulary_count_);
  }
  std::uint64_t drafter_bytes() const override { return 1; }

 private:
  std::uint32_t vocabulary_count_;
};

class RandomModel final : public DrafterModel {
 public:
  RandomModel(std::uint32_t vocabulary_count, std::uint32_t cols)
      : cols_(cols),
        facts_{.vocabulary_count = vocabulary_count,
               .context_count = 1000,
               .step_bytes = 1,
               .tap = "positions",
               .pace_name = std::string(kRandomKind.name)} {}

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend&, std::uint32_t) const override {
    return std::make_unique<RandomWeights>(facts_.vocabulary_count);
  }
  std::unique_ptr<Tap> make_tap(Backend&) const override {
    return std::make_unique<RandomTap>(cols_);
  }

 private:
  std::uint32_t cols_;
  DrafterFacts facts_;
};

bool is_bundle(const GgufFile& file) {
  const auto architecture = file.architecture();
  return architecture && *architecture == kArchitecture;
}

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file) {
  const auto count = file.get_u32("random.vocabulary");
  if (!count) return count.error();
  // A file may declare rows other than those sent; servers have to notice from the tap.
  const auto cols = file.get_u32_or("random.columns", kCols);
  if (!cols) return cols.error();
  return std::make_unique<RandomModel>(*count, *cols);
}

bool is_source(const std::filesystem::path& drafter) {
  return drafter.filename() == kRandomKind.name;
}

Result<ModelPlan> plan_bundle(const BundleSource& source) {
  const auto fingerprint = model_fingerprint(source.target);
  if (!fingerprint) return fingerprint.error();
  const GgufTensor* table = source.target.find_tensor("token_embd.weight");
  ModelPlan plan;
  plan.metadata.set_string("general.architecture", std::string(kArchitecture));
  plan.metadata.set_string(std::string(kTargetFingerprintKey), to_hex(*fingerprint));
  plan.metadata.set_u32("random.vocabulary", static_cast<std::uint32_t>(table->rows()));
  for (const auto& [key, value] : source.target.metadata()) {
    if (key.starts_with("tokenizer.")) plan.metadata.set(std::string(key), value);
  }
  return plan;
}

}  // namespace

const DrafterKind kRandomKind = {.name = "random",
                                 .is_bundle = is_bundle,
                                 .read = read,
                                 .is_source = is_source,
                                 .plan_bundle = plan_bundle};

std::uint32_t random_kind_rows() {
  return rows_received;
}

}  // namespace edgedraft::testing
