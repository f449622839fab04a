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

namespace edgedraft {

// What a bundle is opened for: plain decoding wants nothing but its tokenizer, and takes any model
// that has the target's.
enum class BundleUse : std::uint8_t { draft, plain };

// The file that a device has of a model: tokenizer, chat template, and the drafter.
class BundleFile {
 public:
  // Opens it for the drafter of that kind, one that needs no weights, or for the bundle's own.
  // Kinds that draft from indexes, here or merged, have these.
  // Errors    of the file, naming it; unsupported if it holds no drafter of ours; usage naming a
  //           kind that does not exist, or that wants an index; those of the indexes
  static Result<BundleFile> open(const std::filesystem::path& path, BundleUse use,
                                 const std::string& drafter_kind = {},
                                 std::span<const std::filesystem::path> indexes = {});
  // From now on drafters of these kinds, which need no weights, add to the drafter's trees.
  // Errors    usage naming a kind that does not exist, needs a bundle or wants an index; those of
  //           the indexes
  // Requires  BundleUse::draft
  Result<void> merge(std::span<const std::string> kinds);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // Our identity on the link. Version and token are the caller's to fill in.
  const wire::Hello& hello() const { return hello_; }
  // The fingerprint of the whole file. Requires BundleUse::draft.
  const Digest& fingerprint() const { return fingerprint_; }
  // Tokens that the drafter can hold; 0 if there is none.
  std::uint32_t context_count() const { return drafter_facts().context_count; }
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t mapped_bytes() const { return file_.mapped_bytes(); }
  // The name of its drafter's kind, "a+b" for several on one tree; empty for BundleUse::plain.
  std::string_view drafter_kind() const { return drafter_kind_; }
  // Requires BundleUse::draft.
  const DrafterModel& drafter() const { return *drafter_; }
  // The facts of its drafter; all zero and empty for BundleUse::plain.
  DrafterFacts drafter_facts() const { return drafter_ ? drafter_->facts() : DrafterFacts{}; }
  // The drafter's weights, for any number of conversations, in each of which it drafts up to the
  // context's end or `positions_max` tokens; null for BundleUse::plain. Throws DeviceError if the
  // backend's memory does not suffice. The file and the backend outlive them and their drafters.
  std::unique_ptr<DrafterWeights> load_drafter(
      Backend& backend,
      std::uint32_t positions_max = std::numeric_limits<std::uint32_t>::max()) const;
  // A drafter with weights of its own.
  std::unique_ptr<Drafter> make_drafter(Backend& backend) const;

  // The template in `file`, or the bundle's own if that is empty.
  // Errors    io, unsupported
  Result<ChatTemplate> chat_template(const std::filesystem::path& file) const;
  // The conversation as the template writes it with the model's own tokens, up to where the model's
  // answer begins. Messages of the system that the template leaves out or refuses stand before the
  // user's next words. Its tokens want Tokenizer::begin_text.
  Result<MarkedText> render_chat(const ChatTemplate& chat, ChatInput input) const;
  // Messages alone, as tokens.
  Result<std::vector<std::uint32_t>> encode_chat(const ChatTemplate& chat,
                                                 std::span<const ChatMessage> messages) const;
  // A text without any template.
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

}  // namespace edgedraft
