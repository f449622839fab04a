#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/tap.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/gguf.h"
#include "shared/runtime/backend.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// What a drafter's tap takes for granted of the target; 0: any will do.
struct TargetSizes {
  std::uint32_t layer_count = 0;
  std::uint32_t dim = 0;  // residual width
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
};

// What both sides and the user need to know of a drafter.
struct DrafterFacts {
  std::uint32_t vocabulary_count = 0;  // of the target's tokenizer
  std::uint32_t context_count = 0;     // tokens that it can hold
  std::uint64_t step_bytes = 0;        // of the weights that it reads for one level of a tree
  // Names the activations that it is sent and their layout; both sides compare it and read nothing
  // into it. Empty for a drafter that needs tokens alone.
  std::string tap{};
  // Whether it reads the newest position's activations and no others.
  bool newest_row = false;
  // The name by which pace profiles list its step time: its kind's and, after a '-', that of the
  // variant.
  std::string pace_name{};
  TargetSizes target{};
};

// A drafter's weights on a backend, with any number of drafters on them: one for each conversation.
// Drafters keep what they need of the weights alive.
//
// Threads   one of the drafters computes at a time
class DrafterWeights {
 public:
  virtual ~DrafterWeights() = default;

  // A drafter that has seen no token. Throws DeviceError if its memory cannot be allocated.
  virtual std::unique_ptr<Drafter> make_drafter() = 0;
  // Memory that each drafter takes on the backend.
  virtual std::uint64_t drafter_bytes() const = 0;
};

// A drafter as its file describes it; nothing is loaded yet.
class DrafterModel {
 public:
  virtual ~DrafterModel() = default;

  virtual const DrafterFacts& facts() const = 0;
  // Loads the device's half, for sequences of at most `positions_max` tokens. Throws DeviceError if
  // the backend's memory does not suffice.
  //
  // Requires  the file and the backend outlive the result; positions_max <= facts().context_count
  virtual std::unique_ptr<DrafterWeights> load(Backend& backend,
                                               std::uint32_t positions_max) const = 0;
  // Loads the target's half; null if and only if facts().tap is empty. Throws as load.
  //
  // Requires  as load; the tap reads a target that check_target() (drafter_fit.h) finds right
  virtual std::unique_ptr<Tap> make_tap(Backend& /*backend*/) const { return nullptr; }
};

// What a bundle is made of.
struct BundleSource {
  const GgufFile& target;
  std::filesystem::path drafter;  // a checkpoint's directory or a GGUF file
  std::optional<DType> type{};    // of the drafter's own matrices; absent: as convert_model chooses
};

// A kind of drafter: how its bundle is recognised, read and made. The table is in kinds.h.
struct DrafterKind {
  // In options, statistics and reports.
  std::string_view name;
  // Its proposals cost a device next to nothing, so that whoever measures what they bring may add
  // them to another drafter's trees without being asked to.
  bool joins_others = false;

  // Whether the file is a bundle of this kind; null for a kind without weights, which has none and
  // is only taken if it is asked for by name.
  bool (*is_bundle)(const GgufFile& file) = nullptr;
  // Reads and checks what the file holds. A kind without weights takes any file with a tokenizer.
  // Errors    bad_file naming the key or tensor; unsupported
  Result<std::unique_ptr<DrafterModel>> (*read)(const GgufFile& file);
  // The same for a kind that drafts from indexes of texts (index/corpus_index.h), which needs one
  // at least; null for all others.
  // Errors    those of CorpusIndex::open; mismatch naming an index of another tokenizer's tokens
  Result<std::unique_ptr<DrafterModel>> (*read_with_indexes)(
      const GgufFile& file, std::span<const std::filesystem::path> indexes) = nullptr;

  bool drafts_from_indexes() const { return read_with_indexes != nullptr; }
  // By whichever of the two it has.
  Result<std::unique_ptr<DrafterModel>> read_with(
      const GgufFile& file, std::span<const std::filesystem::path> indexes) const {
    return drafts_from_indexes() ? read_with_indexes(file, indexes) : read(file);
  }

  // Whether `drafter` is what plan_bundle makes a bundle of; null if there is nothing to convert.
  bool (*is_source)(const std::filesystem::path& drafter) = nullptr;
  // Errors    io, bad_file, unsupported; mismatch: the drafter was made for another target
  Result<ModelPlan> (*plan_bundle)(const BundleSource& source) = nullptr;
  // Whether a bundle's tensor is its target's, and keeps its bits through any conversion; null if
  // all tensors are the drafter's own.
  bool (*is_from_target)(std::string_view tensor) = nullptr;
};

}  // namespace edgedraft
