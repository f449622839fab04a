#include "client/serve/text/call_form.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "client/text/begun_mark.h"

namespace edgedraft::client {
namespace {

// A shorter mark, or one of JSON characters, could match other text.
constexpr std::size_t kMarkMin = 4;

// Probe texts, located in the template's output.
constexpr std::string_view kSaid = "edgedraft-said";
const ChatCall kFirst{
    .name = "edgedraft_one", .arguments = R"({"place": "one"})", .id = "edgedrft1"};
const ChatCall kSecond{
    .name = "edgedraft_two", .arguments = R"({"place": "two"})", .id = "edgedrft2"};
constexpr std::string_view kTools =
    R"([{"type": "function", "function": {"name": "edgedraft_one", "description": "One.",
         "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}},
        {"type": "function", "function": {"name": "edgedraft_two", "description": "Two.",
         "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}])";

using Render = std::function<Result<MarkedText>(const ChatInput&)>;

std::optional<std::string> text_of(const Render& render, ChatMessage answer, CallArguments as,
                                   std::optional<ChatMessage> result = std::nullopt) {
  std::vector<ChatMessage> messages{{.role = "user", .content = "?"}, std::move(answer)};
  if (result) messages.push_back(*std::move(result));
  const auto text = render({.messages = messages, .tools = kTools, .call_arguments = as});
  if (!text) return std::nullopt;
  return text->text();
}

// Returns the rendered calls without the text around any answer.
std::optional<std::string> answer_of(const Render& render, std::vector<ChatCall> calls,
                                     CallArguments as) {
  const auto said =
      text_of(render, {.role = "assistant", .content = std::string(kSaid), .calls = {}}, as);
  const auto called =
      text_of(render, {.role = "assistant", .content = {}, .calls = std::move(calls)}, as);
  if (!said || !called || said->find(kFirst.name) == said->npos) return std::nullopt;
  const std::size_t at = said->find(kSaid);
  if (at == said->npos) return std::nullopt;
  const std::string_view before = std::string_view(*said).substr(0, at);
  const std::string_view behind = std::string_view(*said).substr(at + kSaid.size());
  const bool fits = called->size() > before.size() + behind.size() && called->starts_with(before) &&
                    called->ends_with(behind);
  if (!fits) return std::nullopt;
  return called->substr(before.size(), called->size() - before.size() - behind.size());
}

std::optional<CallForm> form_with(const Render& render, CallArguments as) {
  const auto one = answer_of(render, {kFirst}, as);
  if (!one) return std::nullopt;
  const std::size_t name = one->find(kFirst.name);
  const std::size_t arguments = one->find(kFirst.arguments);
  if (name == one->npos || arguments == one->npos || arguments < name) return std::nullopt;
  CallForm form{.is_templates = true, .arguments = as};
  const std::size_t name_end = name + kFirst.name.size();
  form.begin = one->substr(0, name);
  form.middle = one->substr(name_end, arguments - name_end);
  form.end = one->substr(arguments + kFirst.arguments.size());
  form.between.reset();
  if (form.begin.empty() || form.middle.empty()) return std::nullopt;
  // Fails if calls are numbered.
  if (form.written(std::span(&kFirst, 1)) != *one) return std::nullopt;
  if (const auto two = answer_of(render, {kFirst, kSecond}, as)) {
    const std::string first = form.begin + kFirst.name + form.middle + kFirst.arguments;
    const std::size_t second = two->find(kSecond.name);
    if (!two->starts_with(first) || second == two->npos) return std::nullopt;
    form.between = two->substr(first.size(), second - first.size());
    const ChatCall both[] = {kFirst, kSecond};
    if (form.written(both) != *two) return std::nullopt;
  }
  const auto result = text_of(render, {.role = "assistant", .content = {}, .calls = {kFirst}}, as,
                              ChatMessage{.role = "tool",
                                          .content = std::string(kSaid),
                                          .call_id = kFirst.id,
                                          .name = kFirst.name});
  if (!result || result->find(kSaid) == result->npos) return std::nullopt;
  return form;
}

// Control tokens never appear in text.
bool is_text(const CallForm& form, const Tokenizer& tokenizer) {
  const auto own = MarkedText::own(form.begin + form.middle + form.between.value_or("") + form.end);
  return std::ranges::none_of(tokenizer.encode(own), [&](std::uint32_t id) {
    return tokenizer.token_type(id) == TokenType::control;
  });
}

// Returns the JSON object at the start of `text`, as written; empty if there is none.
std::string_view object_at(std::string_view text) {
  if (!text.starts_with('{')) return {};
  std::istringstream in{std::string(text)};
  try {
    nlohmann::json object;
    in >> object;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  const auto end = in.tellg();
  return end < 0 ? text : text.substr(0, static_cast<std::size_t>(end));
}

}  // namespace

std::string_view CallForm::mark() const {
  const std::string_view mark = std::string_view(begin).substr(0, begin.find_first_of("{\"\n"));
  return mark.size() < kMarkMin ? std::string_view() : mark;
}

std::size_t CallForm::calls_at(std::string_view text) const {
  const std::string_view mark = this->mark();
  if (mark.empty()) return text.empty() || text.front() == begin.front() ? 0 : text.size();
  if (const std::size_t at = text.find(mark); at != text.npos) return at;
  return text.size() - begun_mark(text, mark);
}

std::string CallForm::written(std::span<const ChatCall> calls) const {
  std::string text = begin;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) text += between.value_or("\n");
    text += calls[i].name + middle + calls[i].arguments;
  }
  return text + end;
}

std::optional<std::vector<ChatCall>> CallForm::parse(std::string_view text) const {
  std::vector<ChatCall> calls;
  const auto take = [&text](std::string_view what) {
    if (!text.starts_with(what)) return false;
    text.remove_prefix(what.size());
    return true;
  };
  if (!take(begin)) return std::nullopt;
  do {
    const std::size_t name_end = text.find(middle);
    if (name_end == text.npos) return std::nullopt;
    ChatCall call{.name = std::string(text.substr(0, name_end)), .arguments = {}};
    text.remove_prefix(name_end + middle.size());
    call.arguments = object_at(text);
    if (call.arguments.empty()) return std::nullopt;
    text.remove_prefix(call.arguments.size());
    calls.push_back(std::move(call));
  } while (between && take(*between));
  if (text != end) return std::nullopt;
  return calls;
}

CallForm call_form_of(const Render& render, const Tokenizer& tokenizer) {
  for (const CallArguments as : {CallArguments::text, CallArguments::object}) {
    auto form = form_with(render, as);
    if (form && is_text(*form, tokenizer)) return *std::move(form);
  }
  return {};
}

}  // namespace edgedraft::client
