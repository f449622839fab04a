#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/families/layer_list.h"
#include "shared/model/families/source_layout.h"
#include "shared/model/model_plan.h"
#include "shared/model/safetensors.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Moves tensors of a checkpoint into a plan and checks their shapes. Does nothing after the first
// error.
class CheckpointReader {
 public:
  CheckpointReader(const SafetensorsModel& checkpoint, DType type, ModelPlan& plan);

  // Prefix of the language model's names. A model that sees images has the language model as a
  // part.
  const std::string& root() const { return root_; }

  // `shape` outermost first. pair_heads as in PlannedTensor.
  void add(const std::string& from, std::string to, std::vector<std::uint64_t> shape,
           std::uint32_t pair_heads);
  // As above, if the checkpoint has the tensor.
  void add_if_there(const std::string& from, std::string to, std::vector<std::uint64_t> shape,
                    std::uint32_t pair_heads);
  // Adds a decoder layer: `from` prefixes Hugging Face's names, `to` GGUF's. RopeStyle::pairs
  // permutes the rows of q and k.
  void add_layer(const std::string& from, const std::string& to, const LayerList& list,
                 RopeStyle style);
  // Skips a tensor that another file also has; if present, its shape must be right.
  void leave_out(const std::string& from, const std::vector<std::uint64_t>& shape);
  // Skips all tensors whose names begin so. Returns whether there are any.
  bool leave_out_all(std::string_view from);
  // Errors    unsupported: the checkpoint has tensors that were not requested
  void refuse_others();

  const std::optional<Error>& error() const { return error_; }

 private:
  void add_part(const LayerTensor& tensor, const std::string& from, const std::string& to,
                RopeStyle style);
  // Adds the sources of a part, which are tensors of type U8 or of weights.
  void add_sources(const HfSource& source, const std::string& from,
                   const std::vector<std::uint64_t>& shape, PlannedTensor& planned);
  // A tensor of the shape, but for dimensions of one; null after an error.
  const SafetensorsTensor* find(const std::string& name, const std::vector<std::uint64_t>& shape);
  std::optional<DType> weight_type(const std::string& name, const SafetensorsTensor& tensor);

  const SafetensorsModel& checkpoint_;
  DType type_;
  ModelPlan& plan_;
  std::string root_;
  std::vector<std::string> taken_;
  std::optional<Error> error_;
};

}  // namespace edgedraft
