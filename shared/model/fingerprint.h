#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// Where a file stores its own fingerprint, and a drafter that of its target: 64 hexadecimal digits.
inline constexpr std::string_view kFingerprintKey = "edgedraft.fingerprint";
inline constexpr std::string_view kTargetFingerprintKey = "edgedraft.target.fingerprint";

// Collects what makes a model the model that it is, in any order: architecture, sizes and every
// tensor's name, type, shape and bytes. Tokenizer and chat template are left out.
class FingerprintBuilder {
 public:
  // Ignores keys that have no part in it. `bytes` as GGUF stores the value.
  void add_value(std::string_view key, ByteView bytes);
  // `content` is the SHA-256 of the tensor's bytes.
  void add_tensor(std::string_view name, DType type, std::span<const std::uint64_t> dims,
                  const Digest& content);
  Digest finish() const;

 private:
  std::map<std::string, Digest> parts_;
};

// The fingerprint of a target or drafter.
//
// Files that this project wrote carry it; it is believed, since it only has to tell honest files
// apart. For others it is computed, about a second for each gigabyte.
// Errors    bad_file where the stored one is no fingerprint
Result<Digest> model_fingerprint(const GgufFile& file);
Digest compute_model_fingerprint(const GgufFile& file);

// Over the tokenizer's model, token texts, scores, types, merges and Hugging Face's rule of spaces:
// equal where both sides turn text into the same ids. Errors    bad_file without a tokenizer
Result<Digest> tokenizer_fingerprint(const GgufFile& file);

// The target that a bundle was made for.
// Errors    bad_file: not a bundle; the message says how to make one
Result<Digest> target_fingerprint_of(const GgufFile& bundle);

}  // namespace edgedraft
