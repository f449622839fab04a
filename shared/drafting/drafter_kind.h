#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/tap.h"
#include "shared/model/config.h"
#include "shared/model/gguf.h"
#include "shared/model/model_plan.h"
#include "shared/runtime/backend.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Target sizes that a drafter's tap relies on; 0: any.
struct TargetSizes {
  // Keys, and values, of a layer that the tap reads.
  struct Keys {
    std::uint32_t layer = 0;  // among the layers with keys of their own
    std::uint32_t cols = 0;
    std::uint32_t window = 0;  // 0: none
  };

  std::uint32_t layer_count = 0;
  std::uint32_t dim = 0;  // residual width
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::vector<Keys> keys = {};
};

// Properties of a drafter for both sides and the user.
struct DrafterFacts {
  std::uint32_t vocabulary_count = 0;  // size of the target's vocabulary
  std::uint32_t context_count = 0;     // maximum tokens
  std::uint64_t step_bytes = 0;        // weight bytes read per tree level
  // Names the activations that it needs and their layout; both sides only compare it. Empty for a
  // drafter that only needs tokens.
  std::string tap{};
  // True if it reads only the newest position's activations.
  bool newest_row = false;
  // Name of its step time in pace profiles: the kind, followed by '-' and the variant.
  std::string pace_name{};
  TargetSizes target{};
};

// Weights on a backend for any number of drafters, one per conversation. Drafters keep the weights
// that they need alive.
//
// Threads   one of the drafters computes at a time
class DrafterWeights {
 public:
  virtual ~DrafterWeights() = default;

  // Creates a drafter without tokens. Throws DeviceError if out of memory.
  virtual std::unique_ptr<Drafter> make_drafter() = 0;
  // Memory per drafter on the backend.
  virtual std::uint64_t drafter_bytes() const = 0;
};

// A drafter described by its file; nothing is loaded yet.
class DrafterModel {
 public:
  virtual ~DrafterModel() = default;

  virtual const DrafterFacts& facts() const = 0;
  // Loads the device's half for sequences of at most `positions_max` tokens. Throws DeviceError if
  // out of memory.
  //
  // Requires  the file and the backend outlive the result; positions_max <= facts().context_count
  virtual std::unique_ptr<DrafterWeights> load(Backend& backend,
                                               std::uint32_t positions_max) const = 0;
  // Loads the server's half; null if and only if facts().tap is empty. Throws as load.
  //
  // Requires  as load; the tap reads a target that check_target() (drafter_fit.h) accepts
  virtual std::unique_ptr<Tap> make_tap(Backend& /*backend*/) const { return nullptr; }
};

// Inputs of a bundle.
struct BundleSource {
  const GgufFile& target;
  std::filesystem::path drafter;  // a checkpoint's directory or a GGUF file
  std::optional<DType> type{};    // drafter's own matrices; absent: convert_model's choice
};

// A kind of drafter: how to recognise, read and make its bundle. kinds.h lists all kinds.
struct DrafterKind {
  // Name in options, statistics and reports.
  std::string_view name;
  // Proposals are nearly free, so load measurements may add them to another drafter's trees
  // unasked.
  bool joins_others = false;

  // Whether the file is a bundle of this kind. Null for a kind without weights, which is only
  // chosen by name.
  bool (*is_bundle)(const GgufFile& file) = nullptr;
  // Reads and checks the file. A kind without weights accepts any file with a tokenizer.
  // Errors    bad_file naming the key or tensor; unsupported
  Result<std::unique_ptr<DrafterModel>> (*read)(const GgufFile& file);
  // As read, for a kind that drafts from indexes of texts (index/corpus_index.h) and needs at least
  // one; null for all others.
  // Errors    those of CorpusIndex::open; mismatch naming an index for another tokenizer
  Result<std::unique_ptr<DrafterModel>> (*read_with_indexes)(
      const GgufFile& file, std::span<const std::filesystem::path> indexes) = nullptr;

  bool drafts_from_indexes() const { return read_with_indexes != nullptr; }
  // Calls whichever of the two is set.
  Result<std::unique_ptr<DrafterModel>> read_with(
      const GgufFile& file, std::span<const std::filesystem::path> indexes) const {
    return drafts_from_indexes() ? read_with_indexes(file, indexes) : read(file);
  }

  // Whether plan_bundle accepts `drafter`; null if there is nothing to convert.
  bool (*is_source)(const std::filesystem::path& drafter) = nullptr;
  // Errors    io, bad_file, unsupported; mismatch: the drafter was made for another target
  Result<ModelPlan> (*plan_bundle)(const BundleSource& source) = nullptr;
  // Plans the bundle of a drafter that is a part of the target's own file; null if there is none.
  // Errors    bad_file, unsupported
  Result<ModelPlan> (*plan_split)(const GgufFile& target) = nullptr;
  // Whether the target's file has such a part.
  bool (*is_part_of)(const DecoderConfig& target) = nullptr;
  // Whether drafters of this kind can be made for `target`; null if for any.
  // Errors    unsupported with the reason and another kind
  Result<void> (*takes_target)(const DecoderConfig& target) = nullptr;
  // Whether plan_bundle makes a drafter for `target` of `model`, a complete model; null for a kind
  // whose drafters are not models.
  // Errors    mismatch
  Result<void> (*takes_model)(const GgufFile& target, const GgufFile& model) = nullptr;
  // Whether a bundle's tensor belongs to the target and keeps its bits in conversions; null if all
  // tensors are the drafter's own.
  bool (*is_from_target)(std::string_view tensor) = nullptr;
};

}  // namespace edgedraft
