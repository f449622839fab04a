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

namespace edgedraft {

// How a model writes calls of functions, in a text of its own or behind one:
//
//   begin NAME middle ARGUMENTS [between NAME middle ARGUMENTS]... end
struct CallForm {
  // The chat template tells the model of functions and what they gave; else we do, in its words.
  bool is_templates = false;
  std::string begin = R"({"name": ")";
  std::string middle = R"(", "arguments": )";
  std::optional<std::string> between = "}\n{\"name\": \"";  // nothing: one call and no more
  std::string end = "}";
  CallArguments arguments = CallArguments::text;  // that the template wants

  // What calls begin with and no other text does; empty if they begin like other texts, and are
  // then calls only where nothing stands before them.
  std::string_view mark() const;
  // From where on `text`, whole or the beginning of one, is calls or may become them.
  std::size_t calls_at(std::string_view text) const;

  std::string written(std::span<const ChatCall> calls) const;
  // What written() made; nothing if it is not that.
  std::optional<std::vector<ChatCall>> parse(std::string_view text) const;

  bool operator==(const CallForm&) const = default;
};

// As a chat template writes calls, found by having it write some; the general form where it knows
// no functions, or writes them with control tokens, numbers or whatever else does not fit.
CallForm call_form_of(const std::function<Result<MarkedText>(const ChatInput&)>& render,
                      const Tokenizer& tokenizer);

}  // namespace edgedraft
