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
// Beside it, layout_fingerprint() of the file that it was computed for.
inline constexpr std::string_view kLayoutKey = "edgedraft.fingerprint.layout";
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

// A digest of tensors' names, types and shapes alone.
// Tensors   a range of what has `name`, `type` and `dims`
template <class Tensors>
Digest layout_fingerprint(const Tensors& tensors) {
  FingerprintBuilder builder;
  for (const auto& tensor : tensors) builder.add_tensor(tensor.name, tensor.type, tensor.dims, {});
  return builder.finish();
}

// The fingerprint of a target or drafter.
//
// Files that this project wrote carry it; it is believed, since it only has to tell honest files
// apart, unless the layout is not that of its file: what other programs quantise keeps our keys.
// For others it is computed, about a second for each gigabyte.
//
// Errors    bad_file where the stored one is no fingerprint
Result<Digest> model_fingerprint(const GgufFile& file);
Digest compute_model_fingerprint(const GgufFile& file);

// Over the tokenizer's model, token texts, scores, types, merges, how byte-level BPE cuts words,
// and Hugging Face's rule of spaces: equal where an id means the same text on both sides.
// llama.cpp's keys add_space_prefix and remove_extra_whitespaces and the ids of tokens that begin
// or end a text are left out. They change what ids a text gets and where an answer ends, but a
// bundle copies them from its target, and older files would no longer match.
//
// Errors    bad_file without a tokenizer
Result<Digest> tokenizer_fingerprint(const GgufFile& file);

// The target that a bundle was made for.
// Errors    bad_file: not a bundle; the message says how to make one
Result<Digest> target_fingerprint_of(const GgufFile& bundle);

}  // namespace edgedraft
