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

// Token ids are three bytes on the link.
inline constexpr std::uint32_t kVocabularyCountMax = 1u << 24;
// The most layers that a decoder may have, and so the target that a drafter names.
inline constexpr std::uint32_t kLayerCountMax = 1024;

// No layer is wider, so that products of two sizes stay far from overflow.
inline constexpr std::uint32_t kWidthMax = 1u << 20;

// A number from 1 to `max`. Errors    bad_file naming the key
Result<std::uint32_t> read_count(const GgufFile& file, std::string_view key, std::uint32_t max);

Error missing_tensor(const std::string& name);
// `rows` 0: any.
Error wrong_shape(const GgufTensor& tensor, std::uint64_t rows, std::uint64_t cols);

// Errors    bad_file or unsupported, in the name of `what`
Result<void> check_heads(const HeadShape& heads, const std::string& what);

// A stored vector of `count` finite positive divisors (RopeConfig::frequency_divisors).
Result<std::vector<float>> read_divisor_tensor(const GgufFile& file, const std::string& name,
                                               std::uint32_t count);

// Looks up tensors of known shape under a name prefix. After the first error it does nothing more,
// so that a caller lists what it needs and asks for the error once.
class TensorReader {
 public:
  TensorReader(const GgufFile& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  void matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols, TensorView& out);
  // A vector of f32, f16 or bf16.
  void vector(const std::string& name, std::uint32_t cols, TensorView& out);
  void optional_vector(const std::string& name, std::uint32_t cols, TensorView& out);
  // A tensor that would change the result and that nothing here computes with.
  void refuse(const std::string& name);

  const std::optional<Error>& error() const { return error_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace edgedraft
