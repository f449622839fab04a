#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/sessions/session_store.h"
#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/constraints/token_texts.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/tap.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "shared/protocol/message.h"
#include "shared/runtime/decoder.h"

namespace edgedraft::server {

// A drafter that the server supports: its tap, and the properties a client must match.
struct HostedDrafter {
  GgufFile file;
  std::string name;
  Digest fingerprint;
  std::unique_ptr<DrafterModel> model;
  std::unique_ptr<Tap> tap;  // null if the drafter needs tokens only
  // Padded size of a position's activations, at a larger model's pace; 0: no padding.
  std::uint32_t padded_row_bytes = 0;
};

struct ModelHostOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> bundles;
  std::vector<std::filesystem::path> indexes{};  // for drafters that copy from public texts
  std::uint32_t context_count = 0;               // 0: the model's own
};

// The target, its tokenizer and the drafters' taps, on a backend.
//
// Threads   the taps and the decoder belong to the compute thread; the rest is constant
class ModelHost {
 public:
  // Errors    of the files; mismatch for a bundle made for another target or contradicting
  //           this one; unsupported if the link cannot carry its drafter's activations
  static Result<std::unique_ptr<ModelHost>> load(Backend& backend, const ModelHostOptions& options);

  const std::string& name() const { return name_; }
  std::uint32_t context_count() const { return context_count_; }
  // The model's trained context length.
  std::uint32_t model_context_count() const { return model_context_count_; }
  const Digest& target_fingerprint() const { return target_fingerprint_; }
  const Digest& tokenizer_fingerprint() const { return tokenizer_fingerprint_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Decoder& decoder() { return *decoder_; }
  // Requires  the host outlives users of the parts
  SessionParts session_parts();

  std::vector<HostedDrafter>& drafters() { return drafters_; }
  // A drafter without weights, which takes the tokenizer of any file: here the target's. A copying
  // drafter gets the host's indexes.
  // Errors    of the kind
  // Requires  the host outlives it
  Result<std::unique_ptr<DrafterModel>> read_drafter(const DrafterKind& kind) const {
    return kind.read_with(file_, indexes_);
  }
  // Null if no bundle has that fingerprint.
  HostedDrafter* find_drafter(const Digest& fingerprint);
  // Tap for a client's drafter; null if it needs none.
  // Errors    mismatch: another target or tokenizer, an unknown drafter, or another tap
  Result<Tap*> find_tap(const wire::Hello& hello);

 private:
  ModelHost() = default;
  Result<void> load_target(const ModelHostOptions& options);
  Result<void> make_decoder(Backend& backend);
  Result<void> load_bundle(Backend& backend, const std::filesystem::path& path);

  GgufFile file_;
  std::vector<std::filesystem::path> indexes_;
  std::string name_;
  std::uint32_t context_count_ = 0;
  std::uint32_t model_context_count_ = 0;
  Digest target_fingerprint_{};
  Digest tokenizer_fingerprint_{};
  std::optional<Tokenizer> tokenizer_;
  std::shared_ptr<const TokenTexts> texts_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<HostedDrafter> drafters_;
};

}  // namespace edgedraft::server
