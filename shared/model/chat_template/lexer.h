#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::chat {

struct Token {
  enum class Kind : unsigned char {
    text,          // outside of tags
    output_begin,  // {{
    output_end,    // }}
    block_begin,   // {%
    block_end,     // %}
    name,
    string,   // content with escapes resolved
    integer,  // digits
    fraction,
    symbol,  // an operator or a bracket
    end,
  };
  Kind kind;
  std::string text;
  int line;
};

// End of every refusal: how to work without this template.
inline constexpr std::string_view kRemedy =
    "; give another template with --chat-template FILE, or use none with `run --raw`";

// "the chat template's line N: WHAT" and the remedy.
Error unsupported_at(int line, const std::string& what);

// Splits a template into tokens, without comments and stripped white space. Ends with a token
// `end`.
// Source    Jinja's lexer with trim_blocks and lstrip_blocks on, as Hugging Face sets it up
// Errors    unsupported
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace edgedraft::chat
