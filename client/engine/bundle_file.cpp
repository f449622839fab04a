#include "client/engine/bundle_file.h"

#include <algorithm>
#include <utility>

#include "shared/base/text_file.h"
#include "shared/drafting/kinds.h"
#include "shared/drafting/merged_drafter.h"
#include "shared/model/fingerprint.h"

namespace edgedraft::client {
namespace {

std::string special_text(const Tokenizer& tokenizer, std::optional<std::uint32_t> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

Result<const DrafterKind*> kind_named(const std::string& name) {
  const DrafterKind* kind = find_drafter_kind(name);
  if (kind != nullptr) return kind;
  return Error{Errc::usage,
               "unknown drafter '" + name + "': expected one of " + drafter_kind_names()};
}

constexpr const char* kProbe = "edgedraft-system-";

bool is_system(const ChatMessage& message) {
  return message.role == "system";
}

// Per message: true if the template writes it. Only system messages are probed. A template that
// refuses them writes none.
std::vector<bool> carried(const ChatTemplate& chat, ChatInput input) {
  std::vector<ChatMessage> probes(input.messages.begin(), input.messages.end());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (is_system(probes[i])) probes[i].content = kProbe + std::to_string(i) + ".";
  }
  input.messages = probes;
  const auto text = chat.render(input);
  std::vector<bool> found;
  for (const ChatMessage& probe : probes) {
    found.push_back(!is_system(probe) ||
                    (text && text->text().find(probe.content) != std::string::npos));
  }
  return found;
}

// Puts system messages that the template does not write before the user's next message, as
// llama.cpp does for templates without that role.
std::vector<ChatMessage> with_system_told_by_user(std::span<const ChatMessage> messages,
                                                  const std::vector<bool>& is_carried) {
  std::vector<ChatMessage> told;
  std::string pending;
  const auto take_pending = [&](const std::string& words) {
    if (pending.empty()) return words;
    return std::exchange(pending, {}) + (words.empty() ? "" : "\n\n" + words);
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (!is_carried[i]) {
      pending = take_pending(message.content);
      continue;
    }
    if (message.role != "user" && !pending.empty()) {
      told.push_back({.role = "user", .content = take_pending({})});
    }
    told.push_back(message);
    if (message.role == "user") told.back().content = take_pending(message.content);
  }
  if (!pending.empty()) told.push_back({.role = "user", .content = pending});
  return told;
}

}  // namespace

Result<BundleFile> BundleFile::open(const std::filesystem::path& path, BundleUse use,
                                    const std::string& drafter_kind,
                                    std::span<const std::filesystem::path> indexes) {
  BundleFile bundle;
  bundle.path_ = path;
  bundle.indexes_.assign(indexes.begin(), indexes.end());
  auto file = GgufFile::open(path);
  if (!file) return in_file(path, file.error());
  bundle.file_ = std::move(*file);
  auto tokenizer = Tokenizer::read(bundle.file_);
  if (!tokenizer) return in_file(path, tokenizer.error());
  bundle.tokenizer_.emplace(std::move(*tokenizer));
  const auto tokens = tokenizer_fingerprint(bundle.file_);
  if (!tokens) return in_file(path, tokens.error());
  bundle.hello_.tokenizer = *tokens;
  // A bundle names its target; another model with the same tokenizer does not.
  if (bundle.file_.find_value(kTargetFingerprintKey) != nullptr) {
    const auto target = target_fingerprint_of(bundle.file_);
    if (!target) return in_file(path, target.error());
    bundle.hello_.target = *target;
  }
  if (use == BundleUse::draft) {
    if (auto read = bundle.read_drafter(drafter_kind); !read) return in_file(path, read.error());
  }
  return bundle;
}

Result<std::unique_ptr<DrafterModel>> BundleFile::read_as(const DrafterKind& kind) const {
  return kind.read_with(file_, indexes_);
}

Result<void> BundleFile::read_drafter(const std::string& drafter_kind) {
  const auto kind = drafter_kind.empty() ? drafter_kind_of(file_) : kind_named(drafter_kind);
  if (!kind) return kind.error();
  const auto fingerprint = model_fingerprint(file_);
  if (!fingerprint) return fingerprint.error();
  fingerprint_ = *fingerprint;
  auto model = read_as(**kind);
  if (!model) return model.error();
  drafter_kind_ = (*kind)->name;
  const DrafterFacts& facts = (*model)->facts();
  if (tokenizer_->vocabulary_count() != facts.vocabulary_count) {
    return Error{Errc::bad_file, "the tokenizer and the embedding disagree on the vocabulary"};
  }
  drafter_ = std::move(*model);
  // The server identifies drafters by their bundles; a drafter without weights has none.
  if ((*kind)->is_bundle != nullptr) {
    hello_.drafter = fingerprint_;
    hello_.drafter_name = path_.stem().string().substr(0, kTextBytesMax);
  } else {
    hello_.drafter_name = drafter_kind_;
  }
  hello_.tap = facts.tap;
  hello_.newest_row = facts.newest_row;
  return {};
}

Result<void> BundleFile::merge(std::span<const std::string> kinds) {
  std::vector<std::unique_ptr<DrafterModel>> others;
  std::string names;
  for (const std::string& name : kinds) {
    const auto other = kind_named(name);
    if (!other) return other.error();
    if ((*other)->is_bundle != nullptr) {
      return Error{Errc::usage, "'" + name +
                                    "' needs a bundle of its own; only drafters without "
                                    "weights can be merged"};
    }
    auto read = read_as(**other);
    if (!read) return in_file(path_, read.error());
    others.push_back(std::move(*read));
    names += "+" + name;
  }
  if (others.empty()) return {};
  drafter_ = merge_drafters(std::move(drafter_), std::move(others));
  drafter_kind_ += names;
  if (!hello_.drafter) hello_.drafter_name = drafter_kind_;
  return {};
}

std::unique_ptr<DrafterWeights> BundleFile::load_drafter(Backend& backend,
                                                         std::uint32_t positions_max) const {
  return drafter_ ? drafter_->load(backend, std::min(positions_max, context_count())) : nullptr;
}

std::unique_ptr<Drafter> BundleFile::make_drafter(Backend& backend) const {
  const auto weights = load_drafter(backend);
  return weights ? weights->make_drafter() : nullptr;
}

Result<ChatTemplate> BundleFile::chat_template(const std::filesystem::path& file) const {
  if (!file.empty()) {
    const auto source = read_text(file, kTemplateBytesMax);
    if (!source) return source.error();
    auto parsed = ChatTemplate::parse(*source);
    if (!parsed) return in_file(file, parsed.error());
    return parsed;
  }
  const auto source = chat_template_source(file_);
  if (!source) return in_file(path_, source.error());
  auto parsed = ChatTemplate::parse(*source);
  if (!parsed) return in_file(path_, parsed.error());
  return parsed;
}

Result<MarkedText> BundleFile::render_chat(const ChatTemplate& chat, ChatInput input) const {
  input.bos_token = special_text(*tokenizer_, tokenizer_->bos_id());
  input.eos_token = special_text(*tokenizer_, tokenizer_->eos_id());
  input.add_generation_prompt = true;
  auto text = chat.render(input);
  if (std::ranges::none_of(input.messages, is_system)) return text;
  const std::vector<bool> is_carried = carried(chat, input);
  if (std::ranges::find(is_carried, false) == is_carried.end()) return text;
  const auto told = with_system_told_by_user(input.messages, is_carried);
  input.messages = told;
  auto with_system = chat.render(input);
  if (with_system || !text) return with_system ? with_system : text;
  return Error{
      Errc::unsupported,
      "the chat template ignores the system message, and fails if the user's message holds it: " +
          with_system.error().message};
}

Result<std::vector<std::uint32_t>> BundleFile::encode_chat(
    const ChatTemplate& chat, std::span<const ChatMessage> messages) const {
  const auto text = render_chat(chat, {.messages = messages});
  if (!text) return text.error();
  // Message text must not become control tokens.
  auto tokens = tokenizer_->encode(*text);
  tokenizer_->begin_text(tokens);
  return tokens;
}

std::vector<std::uint32_t> BundleFile::encode_raw(std::string_view text) const {
  std::vector<std::uint32_t> tokens = tokenizer_->encode(text, Special::plain);
  if (tokenizer_->add_bos() && tokenizer_->bos_id()) {
    tokens.insert(tokens.begin(), *tokenizer_->bos_id());
  }
  return tokens;
}

}  // namespace edgedraft::client
