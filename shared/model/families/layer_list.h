#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/families/source_layout.h"

namespace edgedraft {

// A tensor of a layer: its names, its shape and its part. Names are constants.
struct LayerTensor {
  // ones: a vector that no file stores, of norms without weights. unused: files may have it.
  // optional_numbers: a vector with one number per expert, as a stack of [1, 1].
  enum class Kind : std::uint8_t {
    matrix,
    optional_matrix,
    vector,
    optional_vector,
    optional_numbers,
    ones,
    unused
  };

  std::string_view name;  // in GGUF, after "blk.N."
  HfSource hf;
  TensorView LayerTensors::*part;
  std::uint32_t rows = 1;
  std::uint32_t cols = 0;
  Kind kind = Kind::matrix;
  // A tensor may hold several parts. These are its rows and the part's first row.
  std::uint32_t stored_rows = 0;  // 0: `rows`
  std::uint32_t first_row = 0;
  std::uint32_t group = 0;    // TensorView
  std::uint32_t experts = 1;  // TensorView; `rows` counts over all
  // Tensor for files that lack `name`: each expert's rows are half of its rows there, from this
  // one.
  std::string_view joined = {};
  std::uint32_t joined_row = 0;
  // Heads whose rows a converter permutes for RopeStyle::pairs; 0: none.
  std::uint32_t heads = 0;
  HfSource hf_else = {};  // for checkpoints that lack `hf`
  bool exact = false;     // converted to f32, whatever the type of the other matrices

  std::uint32_t all_rows() const { return stored_rows == 0 ? rows : stored_rows; }
};

// The tensors of one layer, for reading a file and for converting one.
class LayerList {
 public:
  using Part = TensorView LayerTensors::*;

  LayerTensor& matrix(std::string_view name, std::string_view hf, Part part, std::uint32_t rows,
                      std::uint32_t cols);
  LayerTensor& vector(std::string_view name, std::string_view hf, Part part, std::uint32_t cols);
  LayerTensor& optional_vector(std::string_view name, std::string_view hf, Part part,
                               std::uint32_t cols);
  // Requires  cols <= kHeadDimMax
  void ones(Part part, std::uint32_t cols);
  void unused(std::string_view name, std::string_view hf = {});

  // A Llama's attention with its norm, q, k, v and output. Biases of q, k and v are optional.
  void attention(const LayerPlan& plan);
  // Norms of each head's queries and keys.
  void head_norms(const LayerPlan& plan);
  // The norm before the feed-forward, under the name that most families give it.
  void ffn_norm(const LayerPlan& plan);
  // Router, gates, ups and downs of experts, under the names of Qwen's.
  void experts(const LayerPlan& plan);
  // Gate, up and down of a dense feed-forward.
  void dense(const LayerPlan& plan);

  // The tensor with the part, which must be there.
  LayerTensor& of(Part part);
  const std::vector<LayerTensor>& tensors() const { return tensors_; }

 private:
  std::vector<LayerTensor> tensors_;
};

// The tensors of a Llama's layer.
void llama_layer(const LayerPlan& plan, LayerList& list);
// As above, of a drafter's layer, which may read the output of its own projection without a norm.
LayerList drafter_layer(const LayerShape& shape);

}  // namespace edgedraft
