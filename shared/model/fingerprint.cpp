#include "shared/model/fingerprint.h"

#include <algorithm>

#include "shared/model/tokenizer/space_rule.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {
namespace {

template <class T>
void add_number(Sha256& hash, T value) {
  hash.update(std::as_bytes(std::span(&value, 1)));
}

// Prefixes the length, so that pieces cannot be confused.
void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, std::uint64_t{text.size()});
  hash.update(text);
}

// True for keys of a model's sizes; names, licences and notes are irrelevant.
bool has_part(std::string_view key) {
  if (key == kFingerprintKey || key == kLayoutKey || key == kSpaceRuleKey || key == kEndIdsKey) {
    return false;
  }
  return key == "general.architecture" ||
         !(key.starts_with("general.") || key.starts_with("tokenizer.") ||
           key.starts_with("quantize.") || key.starts_with("split."));
}

Result<Digest> parse_digest(std::string_view text, std::string_view key) {
  const auto bytes = from_hex(text);
  Digest digest;
  if (!bytes || bytes->size() != digest.size()) {
    return Error{Errc::bad_file, std::string(key) + " is not a hexadecimal SHA-256"};
  }
  std::copy(bytes->begin(), bytes->end(), digest.begin());
  return digest;
}

}  // namespace

void FingerprintBuilder::add_value(std::string_view key, ByteView bytes) {
  if (has_part(key)) parts_.insert_or_assign("key " + std::string(key), sha256(bytes));
}

void FingerprintBuilder::add_tensor(std::string_view name, DType type,
                                    std::span<const std::uint64_t> dims, const Digest& content) {
  Sha256 hash;
  add_text(hash, traits(type).name);
  for (const std::uint64_t dim : dims) add_number(hash, dim);
  hash.update(content);
  parts_.insert_or_assign("tensor " + std::string(name), hash.finish());
}

Digest FingerprintBuilder::finish() const {
  Sha256 hash;
  for (const auto& [name, digest] : parts_) {
    add_text(hash, name);
    hash.update(digest);
  }
  return hash.finish();
}

Digest compute_model_fingerprint(const GgufFile& file) {
  FingerprintBuilder builder;
  for (const auto& [key, value] : file.metadata()) builder.add_value(key, value.bytes);
  for (const GgufTensor& tensor : file.tensors()) {
    builder.add_tensor(tensor.name, tensor.type, tensor.dims, sha256(tensor.bytes));
  }
  return builder.finish();
}

Result<Digest> model_fingerprint(const GgufFile& file) {
  if (file.find_value(kFingerprintKey) == nullptr) return compute_model_fingerprint(file);
  const auto text = file.get_string(kFingerprintKey);
  if (!text) return text.error();
  if (file.find_value(kLayoutKey) != nullptr) {
    const auto layout = file.get_string(kLayoutKey);
    if (!layout) return layout.error();
    if (*layout != to_hex(layout_fingerprint(file.tensors()))) {
      return compute_model_fingerprint(file);
    }
  }
  return parse_digest(*text, kFingerprintKey);
}

Result<Digest> tokenizer_fingerprint(const GgufFile& file) {
  const auto model = file.get_string("tokenizer.ggml.model");
  if (!model) return model.error();
  const auto texts = file.get_strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  Sha256 hash;
  add_text(hash, *model);
  for (const std::string_view text : *texts) add_text(hash, text);
  for (const std::string_view key :
       {"tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"}) {
    const GgufValue* value = file.find_value(key);
    add_number(hash, std::uint64_t{value == nullptr ? 0 : value->count});
    if (value != nullptr) hash.update(value->bytes);
  }
  // Merges alone do not determine how byte-level BPE splits words.
  if (*model == "gpt2") {
    const auto pre = file.get_string_or("tokenizer.ggml.pre", "default");
    if (!pre) return pre.error();
    add_text(hash, *pre);
  }
  // Files without the key keep their older fingerprints.
  if (file.find_value(kSpaceRuleKey) != nullptr) {
    const auto rule = file.get_string(kSpaceRuleKey);
    if (!rule) return rule.error();
    add_text(hash, *rule);
  }
  return hash.finish();
}

Result<Digest> target_fingerprint_of(const GgufFile& bundle) {
  if (bundle.find_value(kTargetFingerprintKey) == nullptr) {
    return Error{
        Errc::bad_file,
        "this file has no target fingerprint, so it is not a bundle; make one with `edgedraft "
        "convert TARGET.gguf --bundle --drafter DIR -o BUNDLE.gguf`"};
  }
  const auto text = bundle.get_string(kTargetFingerprintKey);
  if (!text) return text.error();
  return parse_digest(*text, kTargetFingerprintKey);
}

}  // namespace edgedraft
