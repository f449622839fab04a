#include "client/serve/dialects/dialect.h"

#include <algorithm>

#include "client/serve/json/json_fields.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

// Extensions that a translated request keeps.
constexpr const char* kExtensions[] = {"private",         "restore_tool_arguments", "offline",
                                       "route",           "chat_template_kwargs",   "seed",
                                       "reasoning_format"};

bool has_member(const Json& value, std::string_view name) {
  if (value.is_object() && value.contains(name)) return true;
  return value.is_structured() &&
         std::ranges::any_of(value, [&](const Json& one) { return has_member(one, name); });
}

}  // namespace

ApiError Translated::renamed_in(ApiError error) const {
  for (const auto& [name, client_name] : renamed) {
    if (error.param != name) continue;
    error.param = client_name;
    const std::string quoted = "'" + name + "'";
    const std::size_t at = error.message.find(quoted);
    if (at != std::string::npos) {
      error.message.replace(at, quoted.size(), "'" + client_name + "'");
    }
  }
  return error;
}

Translation::Translation(std::string_view body) {
  nlohmann::json plain;
  error_ = parse_object(body, plain);
  if (error_) return;
  request_ = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  // A translation would lose it.
  if (has_member(request_, "x_private")) {
    error_ = ApiError{.message =
                          "'x_private' is supported in /v1/chat/completions only; mark private "
                          "text as <private>text</private>",
                      .param = "x_private",
                      .code = "unsupported_value"};
  }
  if (text_member(request_, "offline") == "revise") {
    refuse("offline", "'revise' is supported in /v1/chat/completions only; use 'keep' or 'wait'");
  }
  for (const char* const name : kExtensions) copy(name);
}

const Json* Translation::member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string Translation::text_member(const Json& object, const char* name) {
  const Json* const found = member(object, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

void Translation::copy(const char* name, const char* as) {
  const Json* const value = find(name);
  if (value == nullptr) return;
  completion_[as == nullptr ? name : as] = *value;
  if (as != nullptr) renamed_.emplace_back(as, name);
}

void Translation::refuse(const std::string& field, const std::string& what) {
  if (error_) return;
  error_ =
      ApiError{.message = "'" + field + "': " + what, .param = field, .code = "unsupported_value"};
}

void Translation::refuse_present(std::initializer_list<const char*> names, const std::string& why) {
  for (const char* const name : names) {
    const Json* const value = find(name);
    if (value != nullptr && *value != false) refuse(name, why);
  }
}

std::string Translation::text_of(const Json& content, const std::string& path,
                                 std::initializer_list<std::string_view> types) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    refuse(path, "expected a string or an array of text parts");
    return {};
  }
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Json* const part = member(content[i], "text");
    const std::string type = text_member(content[i], "type");
    if (part == nullptr || !part->is_string() || std::ranges::find(types, type) == types.end()) {
      refuse(path + "[" + std::to_string(i) + "]",
             "only text is supported; expected type '" + std::string(*types.begin()) + "'");
      return {};
    }
    text += part->get_ref<const std::string&>();
  }
  return text;
}

ApiResult<Translated> Translation::finish(FormatMaker make_format, CompletionKind kind) {
  if (error_) return *error_;
  if (kind == CompletionKind::chat) completion_["messages"] = std::move(messages_);
  return Translated{.body = completion_.dump(-1, ' ', false, Json::error_handler_t::replace),
                    .kind = kind,
                    .make_format = std::move(make_format),
                    .renamed = std::move(renamed_)};
}

Json function_tool(std::string name, const Json* description, const Json* parameters,
                   const Json* strict) {
  Json function = {{"name", std::move(name)}};
  if (description != nullptr) function["description"] = *description;
  if (parameters != nullptr) function["parameters"] = *parameters;
  if (strict != nullptr) function["strict"] = *strict;
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json function_choice(const std::string& name) {
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

Json function_call(const std::string& id, const std::string& name, const std::string& arguments) {
  return {
      {"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

Json arguments_object(const std::string& arguments) {
  Json parsed = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : Json({{"arguments", arguments}});
}

}  // namespace edgedraft::client
