#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/chat_template/lexer.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

struct Expression {
  enum class Kind : unsigned char {
    literal,    // value
    variable,   // text
    list,       // parts
    map,        // parts: key, value, key, value, ...
    attribute,  // parts[0].text
    index,      // parts[0][parts[1]]
    slice,      // parts[0][parts[1]:parts[2]:parts[3]]; each of the three may be null
    call,       // text(parts...)
    method,     // parts[0].text(parts[1]...)
    filter,     // parts[0] | text(parts[1]...)
    test,       // parts[0] is text(parts[1]...)
    negate,     // -parts[0]
    invert,     // not parts[0]
    binary,     // parts[0] text parts[1]
    choice,     // parts[0] if parts[1] else parts[2]; parts[2] may be null
  };
  Kind kind;
  int line;
  std::string text = {};
  Value value = {};
  std::vector<std::unique_ptr<Expression>> parts = {};
  std::vector<std::string> names = {};  // argument names: one per part, empty if unnamed
  std::size_t depth = 1;                // depth of the tree below, at most kTemplateDepthMax
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

struct Statement {
  enum class Kind : unsigned char {
    text,       // text
    output,     // {{ expression }}
    condition,  // {% if %}: branches
    loop,       // {% for targets in expression %}: branches[0], whose condition is the loop's `if`;
                // branches[1] is the `else`
    assign,     // {% set targets = expression %}, of the member targets[1] if there are two;
                // without expression the output of branches[0].body
    group,      // branches[0].body
    next_turn,  // {% continue %}
    leave_loop  // {% break %}
  };
  Kind kind;
  int line;
  std::string text = {};
  std::vector<std::string> targets = {};
  ExpressionPtr expression = {};
  std::vector<Branch> branches = {};
};

// Errors    unsupported: names the unknown construct and its line
Result<Body> parse_template(std::vector<Token> tokens);

}  // namespace edgedraft::chat
