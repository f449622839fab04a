#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/model/chat_template/parser.h"

namespace edgedraft::chat {

// Arguments that a macro may read besides its parameters.
struct MoreArguments {
  bool caller = false;
  bool positional = false;
  bool named = false;
};

// Parses expressions at a position in a token list. The first error sticks: from then on every
// expression is null and nothing is consumed.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  Token take();
  // Consumes a name or symbol with that text.
  bool take_if(std::string_view text);
  bool at(std::string_view text) const;
  bool at(Token::Kind kind) const { return peek().kind == kind; }

  ExpressionPtr parse();
  // Whether `if` after an expression continues it, or belongs to the caller.
  enum class Choice : unsigned char { parsed, left };
  // One expression, or a tuple if a comma follows.
  ExpressionPtr parse_tuple(Choice choice = Choice::parsed);
  // `name | name`, with or without the first `|`, applied to the output of a block.
  ExpressionPtr parse_filters_of_captured();

  // Names of further arguments in the expressions parsed since the last reset.
  MoreArguments& more_arguments() { return more_arguments_; }

  void fail(const std::string& what);
  const std::optional<Error>& error() const { return error_; }

 private:
  bool at_operator(int level) const;
  // Operations of that precedence, and of all tighter ones.
  ExpressionPtr parse_binary(int level = 0);
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  // A signed value with its attributes and calls, without filters and tests.
  ExpressionPtr parse_signed();
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  // Attributes, items and calls after a value.
  ExpressionPtr parse_postfix(ExpressionPtr expression);
  // As above, plus filters and tests.
  ExpressionPtr parse_suffixes(ExpressionPtr expression);
  ExpressionPtr parse_dot(ExpressionPtr object);
  ExpressionPtr parse_bracket(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr callee);
  // After the `|`.
  ExpressionPtr parse_filter(ExpressionPtr object);
  ExpressionPtr parse_test(ExpressionPtr object);
  ExpressionPtr parse_map(int line);
  ExpressionPtr parse_list(int line);
  bool at_argument_of_test() const;
  // Arguments after the opening parenthesis, which is already consumed.
  void parse_arguments(Expression& into);
  ExpressionPtr make(Expression expression);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::size_t nesting_ = 0;
  MoreArguments more_arguments_;
  std::optional<Error> error_;
};

}  // namespace edgedraft::chat
