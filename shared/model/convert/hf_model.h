#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/convert/hf_config.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/safetensors.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Plans the conversion of a Llama or Qwen2 directory.
//
// Errors    io, bad_file, unsupported, mismatch: naming the file, key or tensor
Result<ModelPlan> plan_hf_model(const std::filesystem::path& directory, DType type);

// Whether a layer has to have a norm before its attention; a drafter's may read what a projection
// of its own made for it.
enum class InputNorm : std::uint8_t { required, optional };

// Takes tensors out of a checkpoint into a plan, their shapes checked. After the first error it
// does nothing more.
class CheckpointReader {
 public:
  CheckpointReader(const SafetensorsModel& checkpoint, DType type, ModelPlan& plan)
      : checkpoint_(checkpoint), type_(type), plan_(plan) {}

  // `shape` outermost first. pair_heads as in PlannedTensor.
  void add(const std::string& from, std::string to, std::vector<std::uint64_t> shape,
           std::uint32_t pair_heads);
  // The same where the checkpoint has it.
  void add_if_there(const std::string& from, std::string to, std::vector<std::uint64_t> shape,
                    std::uint32_t pair_heads);
  // A decoder layer: Hugging Face's names behind `from`, GGUF's behind `to`. With RopeStyle::pairs
  // the rows of q and k are permuted.
  void add_layer(const std::string& from, const std::string& to, const LayerShape& shape,
                 RopeStyle style, InputNorm input_norm = InputNorm::required);
  // A tensor that is left out if the checkpoint has it: another file has the same. Its shape has to
  // be right.
  void leave_out(const std::string& from, const std::vector<std::uint64_t>& shape);
  // Errors    unsupported: the checkpoint has tensors that nobody asked for
  void refuse_others();

  const std::optional<Error>& error() const { return error_; }

 private:
  const SafetensorsModel& checkpoint_;
  DType type_;
  ModelPlan& plan_;
  std::vector<std::string> taken_;
  std::optional<Error> error_;
};

}  // namespace edgedraft
