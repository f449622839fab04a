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
    literal,     // value
    variable,    // text
    captured,    // output of the {% filter %} or {% set %} block around the expression
    list,        // parts
    tuple,       // parts
    map,         // parts: key, value, key, value, ...
    attribute,   // parts[0].text
    index,       // parts[0][parts[1]]
    slice,       // parts[0][parts[1]:parts[2]:parts[3]]; each of the three may be null
    call,        // parts[0](parts[1]...)
    filter,      // parts[0] | text(parts[1]...)
    test,        // parts[0] is text(parts[1]...)
    negate,      // -parts[0]
    plus,        // +parts[0]
    invert,      // not parts[0]
    binary,      // parts[0] text parts[1]
    comparison,  // parts[0] names[0] parts[1] names[1] parts[2] ...
    choice,      // parts[0] if parts[1] else parts[2]; parts[2] may be null
  };
  Kind kind;
  int line;
  std::string text = {};
  Value value = {};
  std::vector<std::unique_ptr<Expression>> parts = {};
  std::vector<std::string> names = {};  // operators, or names of arguments: one per part, or empty
  std::size_t depth = 1;                // depth of the tree below, at most kTemplateDepthMax
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

// Target of a loop or {% set %}: a name, a namespace's member or several targets.
struct Target {
  std::string name = {};
  std::string member = {};  // empty: the variable itself
  std::vector<Target> parts = {};
};

// A parameter of a macro or of {% call %}.
struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: undefined if not given
};

struct Statement {
  enum class Kind : unsigned char {
    text,        // text
    output,      // {{ expression }}
    condition,   // {% if %}: branches
    loop,        // {% for target in expression %}: branches[0], whose condition is the loop's `if`;
                 // branches[1] is the `else`
    assign,      // {% set target = expression %}; with a body, of which `expression` filters the
                 // output: {% set target %}
    filter,      // {% filter %}: writes the output of the body through `expression`
    macro,       // {% macro text(parameters) %}: branches[0].body
    call,        // {% call(parameters) expression %}: branches[0].body is the caller
    group,       // branches[0].body in a scope of its own, with the parameters as variables
    next_turn,   // {% continue %}
    leave_loop,  // {% break %}
  };
  Kind kind;
  int line;
  std::string text = {};
  Target target = {};
  ExpressionPtr expression = {};
  std::vector<Branch> branches = {};
  std::vector<Parameter> parameters = {};
  // Arguments that the macro's body reads besides its parameters. A macro refuses others.
  bool reads_caller = false;
  bool reads_more_positional = false;  // varargs
  bool reads_more_named = false;       // kwargs
};

// Errors    unsupported: names the unknown construct and its line
Result<Body> parse_template(std::vector<Token> tokens);

}  // namespace edgedraft::chat
