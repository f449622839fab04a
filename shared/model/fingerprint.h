#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// Key of a file's own fingerprint and, in a drafter, of its target's: 64 hexadecimal digits.
inline constexpr std::string_view kFingerprintKey = "edgedraft.fingerprint";
// Key of the layout_fingerprint() of the file for which it was computed.
inline constexpr std::string_view kLayoutKey = "edgedraft.fingerprint.layout";
inline constexpr std::string_view kTargetFingerprintKey = "edgedraft.target.fingerprint";

// Hashes a model's identity, in any order: architecture, sizes and every tensor's name, type, shape
// and bytes. Excludes tokenizer and chat template.
class FingerprintBuilder {
 public:
  // Ignores irrelevant keys. `bytes` as stored in GGUF.
  void add_value(std::string_view key, ByteView bytes);
  // `content` is the SHA-256 of the tensor's bytes.
  void add_tensor(std::string_view name, DType type, std::span<const std::uint64_t> dims,
                  const Digest& content);
  Digest finish() const;

 private:
  std::map<std::string, Digest> parts_;
};

// Digest of tensors' names, types and shapes.
// Tensors   a range of elements with `name`, `type` and `dims`
template <class Tensors>
Digest layout_fingerprint(const Tensors& tensors) {
  FingerprintBuilder builder;
  for (const auto& tensor : tensors) builder.add_tensor(tensor.name, tensor.type, tensor.dims, {});
  return builder.finish();
}

// Fingerprint of a target or drafter.
//
// Files written by this project store it. It is trusted, since it only distinguishes honest files,
// unless the layout differs: other programs keep our keys when they quantise. Otherwise it is
// computed, at about a second per gigabyte.
//
// Errors    bad_file if the stored one is malformed
Result<Digest> model_fingerprint(const GgufFile& file);
Digest compute_model_fingerprint(const GgufFile& file);

// Hashes the tokenizer's model, token texts, scores, types, merges, byte-level BPE's pre-tokenizer,
// and Hugging Face's space rule. Hashes are equal if ids mean the same text on both sides. Excludes
// llama.cpp's keys add_space_prefix and remove_extra_whitespaces and the ids of tokens that begin
// or end a text. They affect a text's ids and the end of an answer. But a bundle copies them from
// its target, and older files would no longer match.
//
// Errors    bad_file without a tokenizer
Result<Digest> tokenizer_fingerprint(const GgufFile& file);

// Fingerprint of a bundle's target.
// Errors    bad_file: not a bundle; the message says how to make one
Result<Digest> target_fingerprint_of(const GgufFile& bundle);

}  // namespace edgedraft
