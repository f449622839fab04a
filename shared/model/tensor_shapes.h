#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"

namespace edgedraft {

struct LayerTensor;

// Token ids take three bytes on the wire.
inline constexpr std::uint32_t kVocabularyCountMax = 1u << 24;
// Maximum layers of a decoder, and of the target that a drafter names.
inline constexpr std::uint32_t kLayerCountMax = 1024;

// Maximum width of a layer; keeps products of two sizes far from overflow.
inline constexpr std::uint32_t kWidthMax = 1u << 20;

// A number from 1 to `max`. Errors    bad_file naming the key
Result<std::uint32_t> read_count(const GgufKeys& file, std::string_view key, std::uint32_t max);

Error missing_tensor(const std::string& name);
// `rows` 0: any.
Error wrong_shape(const GgufTensor& tensor, std::uint64_t rows, std::uint64_t cols);

// Widest head of a drafter's own layers; the operations on them take no wider ones.
inline constexpr std::uint32_t kDrafterHeadDimMax = 256;

// Errors    bad_file or unsupported, naming `what`
Result<void> check_heads(const HeadShape& heads, const std::string& what,
                         std::uint32_t head_dim_max);

// Multiplies the divisors by those of rope_freqs.weight, if the file has it.
Result<void> read_rope_freqs(const GgufFile& file, RopeConfig& rope);

// A stored vector of `count` finite positive divisors (RopeConfig::frequency_divisors).
Result<std::vector<float>> read_divisor_tensor(const GgufFile& file, const std::string& name,
                                               std::uint32_t count);

// Looks up tensors of known shape under a name prefix. Does nothing after the first error, so a
// caller lists its tensors and checks for an error once.
class TensorReader {
 public:
  TensorReader(const GgufFile& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  void matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols, TensorView& out,
              std::size_t dims_max = 2);
  // A vector of f32, f16 or bf16.
  void vector(const std::string& name, std::uint32_t cols, TensorView& out);
  void vectors(const std::string& name, std::uint32_t rows, std::uint32_t cols, TensorView& out);
  // A part of a layer, by its name there.
  void part(const LayerTensor& tensor, TensorView& out);
  void optional_vector(const std::string& name, std::uint32_t cols, TensorView& out);
  bool has(std::string_view name) const;
  // Refuses a tensor that would change the result but is not computed with.
  void refuse(const std::string& name);

  const std::optional<Error>& error() const { return error_; }

 private:
  void joined_experts(const LayerTensor& tensor, TensorView& out);

  const GgufFile& file_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace edgedraft
