#include "client/serve/page/page_api.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "client/page/page_files.h"
#include "client/privacy/open_text.h"
#include "client/serve/json/json_fields.h"
#include "client/serve/json/url_query.h"
#include "shared/base/ascii.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kTitleBytesMax = 1024;
constexpr std::size_t kRemovedMax = 1024;
constexpr std::size_t kAwaitedMax = 64;  // limit of kept streams
// The page loads nothing from other origins, and sends nothing to them.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

ApiError no_page() {
  return {
      .status = 404, .message = "the page of this endpoint is off (--page off)", .code = "no_page"};
}

ApiError unknown() {
  return {.status = 404, .message = "unknown conversation", .code = "unknown_conversation"};
}

ApiError removed() {
  return {
      .status = 410, .message = "this conversation was deleted", .code = "deleted_conversation"};
}

ApiError no_id() {
  return {.message = "'id': expected 16 to 64 letters, digits and '-'",
          .param = "id",
          .code = "invalid_value"};
}

std::string id_of(const HttpRequest& request) {
  return query_field(request.query, "id").value_or("");
}

// Returns the messages before the first placeholder.
Json open_messages(const PrivateRequest::Masked& masked) {
  Json open = Json::array();
  const auto cut = [&masked](Json& text) {
    const auto whole = MarkedText::foreign(text.get<std::string>());
    const OpenText back = put_back(whole, *masked.placeholders);
    const bool is_cut = back.text.text() != whole.text();
    if (is_cut) text = whole.text().substr(0, back.open_bytes);
    return is_cut;
  };
  for (Json message : Json::parse(masked.body).value("messages", Json::array())) {
    if (!message.is_object() || !message.contains("content")) return open;
    Json& content = message["content"];
    bool is_cut = content.is_string() && cut(content);
    for (std::size_t i = 0; content.is_array() && i < content.size() && !is_cut; ++i) {
      Json& part = content[i];
      is_cut = part.is_object() && part.value("text", Json()).is_string() && cut(part["text"]);
      if (is_cut)
        content.erase(content.begin() + static_cast<std::ptrdiff_t>(i) + 1, content.end());
    }
    open.push_back(std::move(message));
    if (is_cut) return open;
  }
  return open;
}

// Name of an answer in progress: 32 random hex digits, which a detector would take for a key.
bool is_stream_name(const nlohmann::json& value) {
  const auto is_hex = [](char c) { return is_ascii_digit(c) || (c >= 'a' && c <= 'f'); };
  if (!value.is_string()) return false;
  const auto& name = value.get_ref<const std::string&>();
  return name.size() == 32 && std::ranges::all_of(name, is_hex);
}

enum class Numbers : std::uint8_t { searched, counters };

// Collects strings, numbers and member names. A value may be split over the strings of an array.
void collect_texts(const nlohmann::json& value, Numbers numbers, std::vector<std::string>& texts) {
  if (value.is_string()) return texts.push_back(value.get<std::string>());
  if (value.is_number() && numbers == Numbers::searched) return texts.push_back(value.dump());
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      texts.push_back(name);
      collect_texts(member, numbers, texts);
    }
    return;
  }
  if (!value.is_array()) return;
  std::string joined;
  for (const nlohmann::json& element : value) {
    if (element.is_string()) joined += element.get_ref<const std::string&>();
    collect_texts(element, numbers, texts);
  }
  texts.push_back(std::move(joined));
}

// Returns all texts of a document, except stream names and counters, which the page adds.
std::vector<std::string> texts_of(const nlohmann::json& document) {
  std::vector<std::string> texts;
  for (const auto& [name, member] : document.items()) {
    texts.push_back(name);
    if (name != "turns" || !member.is_array()) {
      collect_texts(member, Numbers::searched, texts);
      continue;
    }
    for (const nlohmann::json& turn : member) {
      if (!turn.is_object()) {
        collect_texts(turn, Numbers::searched, texts);
        continue;
      }
      for (const auto& [part, value] : turn.items()) {
        texts.push_back(part);
        if (part == "stream" && is_stream_name(value)) continue;
        collect_texts(value, part == "answer" ? Numbers::counters : Numbers::searched, texts);
      }
    }
  }
  return texts;
}

// Returns the last turn if it waits for a stream; otherwise null.
const nlohmann::json* awaiting_turn(const nlohmann::json& document) {
  const auto turns = document.find("turns");
  if (turns == document.end() || !turns->is_array() || turns->empty()) return nullptr;
  const nlohmann::json& last = turns->back();
  return last.is_object() && last.contains("stream") && last.at("stream").is_string() ? &last
                                                                                      : nullptr;
}

// Length in UTF-16 units, as in JavaScript.
std::size_t utf16_count(std::string_view text) {
  std::size_t units = 0;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if ((value & 0xC0) != 0x80) units += value >= 0xF0 ? 2 : 1;
  }
  return units;
}

// The document's mode; empty for the endpoint's default.
std::optional<PrivateMode> mode_of(const nlohmann::json& document) {
  const auto mode = document.find("mode");
  if (mode == document.end() || !mode->is_string()) return std::nullopt;
  const auto word = mode->get<std::string>();
  if (word.empty()) return std::nullopt;
  return private_mode_of(word);
}

}  // namespace

ApiResult<HttpAnswer> PageApi::file(const HttpRequest& request) {
  if (store_ == nullptr) return ApiError{.status = 404, .message = no_page().message};
  const auto files = page_files();
  const auto found = std::ranges::find(files, request.path, &PageFile::path);
  if (found == files.end()) return ApiError{.status = 404, .message = "unknown page"};
  return HttpAnswer{.content_type = std::string(found->type),
                    .body = std::string(found->content),
                    .headers = {{"Content-Security-Policy", kPolicy},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cache-Control", "no-cache"}}};
}

ApiResult<HttpAnswer> PageApi::list(const HttpRequest& /*request*/) {
  if (store_ == nullptr) return no_page();
  Json list = Json::array();
  for (const ConversationStore::Entry& entry : store_->list()) {
    list.push_back({{"id", entry.id},
                    {"title", entry.title},
                    {"updated_unix_ms", entry.updated_unix_ms},
                    {"private", entry.is_private}});
  }
  return json_answer({{"object", "list"}, {"data", std::move(list)}});
}

ApiResult<HttpAnswer> PageApi::read(const HttpRequest& request) {
  if (store_ == nullptr) return no_page();
  const std::string id = id_of(request);
  if (!ConversationStore::is_id(id)) return no_id();
  auto document = store_->find(id);
  if (!document) return unknown();
  return HttpAnswer{.content_type = "application/json", .body = *std::move(document)};
}

ApiResult<PageApi::Document> PageApi::parse(std::string_view body, const PrivacyGuard& privacy) {
  nlohmann::json object;
  if (const auto wrong = parse_object(body, object)) return *wrong;
  JsonFields fields(object);
  ConversationStore::Conversation conversation{};
  fields.read("title", conversation.entry.title);
  fields.read("private", conversation.entry.is_private);
  const nlohmann::json* const document = fields.find("document");
  if (document == nullptr || !document->is_object()) fields.refuse("document", "an object");
  if (conversation.entry.title.size() > kTitleBytesMax) {
    fields.refuse("title", "at most " + std::to_string(kTitleBytesMax) + " bytes");
  }
  if (fields.error()) return *fields.error();
  // Search the document, too: the page recognises marks, but learns of detected values only after
  // an answer.
  std::vector<std::string> texts = texts_of(*document);
  texts.push_back(conversation.entry.title);
  const auto finds = [&privacy, mode = mode_of(*document)](const std::string& text) {
    return privacy.finds(text, mode);
  };
  conversation.entry.is_private =
      conversation.entry.is_private || std::ranges::any_of(texts, finds);
  conversation.document = document->dump();
  const nlohmann::json* const turn = awaiting_turn(*document);
  return Document{.conversation = std::move(conversation),
                  .stream = turn == nullptr ? "" : turn->at("stream")};
}

ApiResult<HttpAnswer> PageApi::keep(const HttpRequest& request, Document document) {
  if (store_ == nullptr) return no_page();
  const std::string id = id_of(request);
  if (!ConversationStore::is_id(id)) return no_id();
  if (std::ranges::find(removed_, id) != removed_.end()) return removed();
  ConversationStore::Conversation& conversation = document.conversation;
  conversation.entry.id = id;
  conversation.entry.updated_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count();
  if (!store_->put(conversation)) {
    return ApiError{.status = 507,
                    .message = conversation.entry.is_private
                                   ? "the memory for private conversations is full: delete some"
                                   : "the storage for conversations is full: delete some",
                    .code = "storage_full"};
  }
  if (!document.stream.empty()) {
    awaited_.emplace_back(std::move(document.stream), id);
    if (awaited_.size() > kAwaitedMax) awaited_.pop_front();
  }
  return json_answer({{"id", id}});
}

void PageApi::settle(const std::string& stream, const std::string& text, const std::string& thought,
                     const Json& counters, const PrivacyGuard& privacy) {
  const auto awaited =
      std::ranges::find(awaited_, stream, &std::pair<std::string, std::string>::first);
  if (store_ == nullptr || awaited == awaited_.end()) return;
  const auto kept = store_->find(awaited->second);
  if (!kept) return;
  nlohmann::json document = nlohmann::json::parse(*kept);
  if (const auto* const turn = awaiting_turn(document);
      turn == nullptr || turn->at("stream") != stream)
    return;
  nlohmann::json& turn = document["turns"].back();
  const bool is_private = counters.contains("private");
  turn.erase("stream");
  if (is_private) turn["private"] = true;
  // If any of it was written offline, none is shown as confirmed.
  const std::size_t confirmed = counters.at("offline_tokens") == 0 ? utf16_count(text) : 0;
  turn["answer"] = {{"text", text},      {"thought", thought}, {"confirmed", confirmed},
                    {"state", "online"}, {"counts", counters}, {"finished", true},
                    {"broken", ""}};
  const auto entries = store_->list();
  auto entry = *std::ranges::find(entries, awaited->second, &ConversationStore::Entry::id);
  entry.is_private = entry.is_private || is_private || privacy.finds(text, mode_of(document)) ||
                     privacy.finds(thought, mode_of(document));
  store_->put({.entry = std::move(entry), .document = document.dump()});
}

ApiResult<HttpAnswer> PageApi::remove(const HttpRequest& request) {
  if (store_ == nullptr) return no_page();
  const std::string id = id_of(request);
  if (!ConversationStore::is_id(id)) return no_id();
  if (!store_->remove(id)) return unknown();
  removed_.push_back(id);
  if (removed_.size() > kRemovedMax) removed_.pop_front();
  return json_answer({{"id", id}, {"deleted", true}});
}

ApiResult<HttpAnswer> PageApi::preview(std::string_view body, PrivacyGuard privacy,
                                       const Tokenizer& tokenizer) {
  auto hidden = take_out_private(body, privacy, tokenizer);
  if (!hidden) return hidden.error();
  nlohmann::json object;
  if (const auto wrong = parse_object(hidden->body, object)) return *wrong;
  Json shown = {{"is_local", hidden->privacy.is_local},
                {"messages", object.value("messages", nlohmann::json::array())}};
  if (hidden->privacy.is_local) shown.erase("messages");
  if (hidden->masked && hidden->privacy.sends_open)
    shown["messages"] = open_messages(*hidden->masked);
  if (hidden->privacy.placeholders) {
    for (const auto& [type, count] : hidden->privacy.placeholders->counts()) {
      shown["private"][to_string(type)] = count;
    }
  }
  return json_answer(shown);
}

}  // namespace edgedraft::client
