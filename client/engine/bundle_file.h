#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/chat_template.h"
#include "shared/model/gguf.h"
#include "shared/model/marked_text.h"
#include "shared/model/tokenizer.h"
#include "shared/protocol/message.h"
#include "shared/runtime/backend.h"

namespace edgedraft::client {

// Purpose of opening a bundle. Plain decoding needs only its tokenizer, so it accepts any model
// with the target's tokenizer.
enum class BundleUse : std::uint8_t { draft, plain };

// The device's file of a model: tokenizer, chat template, and drafter.
class BundleFile {
 public:
  // Opens a bundle with its own drafter, or with a drafter of `drafter_kind`, which needs no
  // weights. `indexes` serve the kinds that draft from indexes, including merged ones.
  // Errors    of the file, naming it; unsupported if it holds no known drafter; usage naming an
  //           unknown kind, or one that needs an index; of the indexes
  static Result<BundleFile> open(const std::filesystem::path& path, BundleUse use,
                                 const std::string& drafter_kind = {},
                                 std::span<const std::filesystem::path> indexes = {});
  // Adds the proposals of these kinds, which need no weights, to the drafter's trees.
  // Requires  BundleUse::draft
  // Errors    usage naming a kind that is unknown, needs a bundle or needs an index; of the indexes
  Result<void> merge(std::span<const std::string> kinds);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // The device's identity on the link. The caller fills in version and token.
  const wire::Hello& hello() const { return hello_; }
  // The fingerprint of the whole file. Requires BundleUse::draft.
  const Digest& fingerprint() const { return fingerprint_; }
  // Tokens that the drafter can hold; 0: no drafter.
  std::uint32_t context_count() const { return drafter_facts().context_count; }
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t mapped_bytes() const { return file_.mapped_bytes(); }
  // Kind of the drafter, "a+b" for several on one tree; empty for BundleUse::plain.
  std::string_view drafter_kind() const { return drafter_kind_; }
  // Requires BundleUse::draft.
  const DrafterModel& drafter() const { return *drafter_; }
  // Facts of the drafter; all zero and empty for BundleUse::plain.
  DrafterFacts drafter_facts() const { return drafter_ ? drafter_->facts() : DrafterFacts{}; }
  // Loads weights that any number of conversations share, each drafting up to the context's end or
  // `positions_max` tokens; null for BundleUse::plain. Throws DeviceError if memory does not
  // suffice. File and backend must outlive the weights and their drafters.
  std::unique_ptr<DrafterWeights> load_drafter(
      Backend& backend,
      std::uint32_t positions_max = std::numeric_limits<std::uint32_t>::max()) const;
  // Returns a drafter with its own copy of the weights.
  std::unique_ptr<Drafter> make_drafter(Backend& backend) const;

  // Returns the template in `file`, or the bundle's own if `file` is empty.
  // Errors    io, unsupported
  Result<ChatTemplate> chat_template(const std::filesystem::path& file) const;
  // Renders the conversation with the template, up to where the model's answer begins. System
  // messages that the template omits or refuses are put before the user's next message. Tokenize
  // the result with Tokenizer::begin_text.
  Result<MarkedText> render_chat(const ChatTemplate& chat, ChatInput input) const;
  // Encodes the messages alone.
  Result<std::vector<std::uint32_t>> encode_chat(const ChatTemplate& chat,
                                                 std::span<const ChatMessage> messages) const;
  // Encodes text without a template.
  std::vector<std::uint32_t> encode_raw(std::string_view text) const;

 private:
  BundleFile() = default;
  Result<void> read_drafter(const std::string& drafter_kind);
  Result<std::unique_ptr<DrafterModel>> read_as(const DrafterKind& kind) const;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> indexes_;
  GgufFile file_;
  std::optional<Tokenizer> tokenizer_;
  Digest fingerprint_{};
  wire::Hello hello_;
  std::unique_ptr<DrafterModel> drafter_;
  std::string drafter_kind_;
};

}  // namespace edgedraft::client
