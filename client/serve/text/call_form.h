#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/chat_template.h"
#include "shared/model/marked_text.h"
#include "shared/model/tokenizer.h"

namespace edgedraft::client {

// Form of a model's function calls, in a text of their own or after text:
//
//   begin NAME middle ARGUMENTS [between NAME middle ARGUMENTS]... end
struct CallForm {
  // The chat template renders functions and results; otherwise this program does, in its own form.
  bool is_templates = false;
  std::string begin = R"({"name": ")";
  std::string middle = R"(", "arguments": )";
  std::optional<std::string> between = "}\n{\"name\": \"";  // empty: a single call only
  std::string end = "}";
  CallArguments arguments = CallArguments::text;  // as the template expects them

  // Text that begins calls and no other text. Empty if calls begin like other text; they then count
  // only at the start of an answer.
  std::string_view mark() const;
  // Position in `text`, complete or not, from which it is calls or may become calls.
  std::size_t calls_at(std::string_view text) const;

  std::string written(std::span<const ChatCall> calls) const;
  // Inverse of written(); empty if the text is not in that form.
  std::optional<std::vector<ChatCall>> parse(std::string_view text) const;

  bool operator==(const CallForm&) const = default;
};

// Probes a chat template for its form of calls. Returns the general form if the template has no
// functions, or uses control tokens, numbers or other unsupported syntax.
CallForm call_form_of(const std::function<Result<MarkedText>(const ChatInput&)>& render,
                      const Tokenizer& tokenizer);

}  // namespace edgedraft::client
