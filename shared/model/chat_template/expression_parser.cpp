#include "shared/model/chat_template/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "shared/model/chat_template.h"

namespace edgedraft::chat {
namespace {

using Kind = Expression::Kind;

template <class... Parts>
std::vector<ExpressionPtr> list_of(Parts... parts) {
  std::vector<ExpressionPtr> list;
  (list.emplace_back(std::move(parts)), ...);
  return list;
}

bool contains(std::initializer_list<std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Token ExpressionParser::take() {
  Token token = tokens_[at_];
  if (!error_ && at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::at(std::string_view text) const {
  const Token& token = peek();
  return !error_ && (token.kind == Token::Kind::name || token.kind == Token::Kind::symbol) &&
         token.text == text;
}

bool ExpressionParser::take_if(std::string_view text) {
  if (!at(text)) return false;
  take();
  return true;
}

void ExpressionParser::fail(const std::string& what) {
  if (!error_) error_ = unsupported_at(peek().line, what);
}

// The only place that makes nodes: bounds the recursion depth of evaluation and destruction.
ExpressionPtr ExpressionParser::make(Expression expression) {
  for (const ExpressionPtr& part : expression.parts) {
    if (part) expression.depth = std::max(expression.depth, part->depth + 1);
  }
  if (expression.depth > kTemplateDepthMax) fail("an expression nested that deeply");
  if (error_) return nullptr;
  return std::make_unique<Expression>(std::move(expression));
}

ExpressionPtr ExpressionParser::parse_choice() {
  if (++nesting_ > kTemplateDepthMax) fail("an expression nested that deeply");
  ExpressionPtr value = error_ ? nullptr : parse_or();
  while (at("if")) {
    const int line = take().line;
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = take_if("else") ? parse_choice() : nullptr;
    value = make({.kind = Kind::choice,
                  .line = line,
                  .parts = list_of(std::move(value), std::move(condition), std::move(otherwise))});
  }
  --nesting_;
  return value;
}

ExpressionPtr ExpressionParser::parse_binary(Next next,
                                             std::initializer_list<std::string_view> operators) {
  ExpressionPtr left = (this->*next)();
  while (!error_ && std::any_of(operators.begin(), operators.end(),
                                [this](std::string_view name) { return at(name); })) {
    const Token name = take();
    ExpressionPtr right = (this->*next)();
    left = make({.kind = Kind::binary,
                 .line = name.line,
                 .text = name.text,
                 .parts = list_of(std::move(left), std::move(right))});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_or() {
  return parse_binary(&ExpressionParser::parse_and, {"or"});
}

ExpressionPtr ExpressionParser::parse_and() {
  return parse_binary(&ExpressionParser::parse_not, {"and"});
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!at("not")) return parse_comparison();
  const int line = take().line;
  if (++nesting_ > kTemplateDepthMax) fail("an expression nested that deeply");
  ExpressionPtr inner = error_ ? nullptr : parse_not();
  --nesting_;
  return make({.kind = Kind::invert, .line = line, .parts = list_of(std::move(inner))});
}

ExpressionPtr ExpressionParser::parse_comparison() {
  ExpressionPtr left = parse_sum();
  if (!at_comparison()) return left;
  const int line = peek().line;
  const bool negated = at("not");
  std::string name = take().text;
  if (negated) {
    if (!take_if("in")) fail("'not' here");
    name = "in";
  }
  ExpressionPtr right = parse_sum();
  // In Jinja, each is compared with the next.
  if (at_comparison()) fail("a comparison of more than two values");
  ExpressionPtr compared = make({.kind = Kind::binary,
                                 .line = line,
                                 .text = std::move(name),
                                 .parts = list_of(std::move(left), std::move(right))});
  if (!negated) return compared;
  return make({.kind = Kind::invert, .line = line, .parts = list_of(std::move(compared))});
}

bool ExpressionParser::at_comparison() const {
  constexpr std::string_view kOperators[] = {"in", "not", "==", "!=", "<", "<=", ">", ">="};
  return std::ranges::any_of(kOperators, [this](std::string_view name) { return at(name); });
}

ExpressionPtr ExpressionParser::parse_sum() {
  return parse_binary(&ExpressionParser::parse_concatenation, {"+", "-"});
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  return parse_binary(&ExpressionParser::parse_product, {"~"});
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr product = parse_binary(&ExpressionParser::parse_unary, {"%", "*"});
  if (at("/") || at("//") || at("**")) fail("the operator '" + peek().text + "'");
  return product;
}

ExpressionPtr ExpressionParser::parse_unary() {
  if (!at("-")) return parse_suffixes(parse_primary());
  const int line = take().line;
  // Filters and tests apply to the negated value.
  ExpressionPtr inner = parse_postfix(parse_primary());
  return parse_suffixes(
      make({.kind = Kind::negate, .line = line, .parts = list_of(std::move(inner))}));
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = peek();
  const int line = token.line;
  switch (token.kind) {
    case Token::Kind::string:
      return make({.kind = Kind::literal, .line = line, .value = Value::text(take().text)});
    case Token::Kind::integer: {
      std::int64_t number = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      take();
      return make({.kind = Kind::literal, .line = line, .value = {number}});
    }
    case Token::Kind::name:
      return parse_name();
    default:
      break;
  }
  if (take_if("(")) {
    ExpressionPtr inner = parse_choice();
    if (at(",")) fail("a tuple");
    if (!take_if(")")) fail("'" + peek().text + "' in parentheses");
    return inner;
  }
  if (take_if("[")) return parse_list(line, "]");
  if (take_if("{")) return parse_map(line);
  fail(token.text.empty() ? "an incomplete expression" : "'" + token.text + "' here");
  return nullptr;
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token name = take();
  const std::string& text = name.text;
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    const bool value = text == "true" || text == "True";
    return make({.kind = Kind::literal, .line = name.line, .value = {value}});
  }
  if (text == "none" || text == "None") {
    return make({.kind = Kind::literal, .line = name.line, .value = {None{}}});
  }
  if (!take_if("(")) return make({.kind = Kind::variable, .line = name.line, .text = text});
  // Existence is checked when called: templates name functions that they test for.
  Expression call{.kind = Kind::call, .line = name.line, .text = text};
  parse_arguments(call);
  if (text == "raise_exception" && call.parts.size() != 1) {
    fail("raise_exception() with that many arguments");
  }
  return make(std::move(call));
}

ExpressionPtr ExpressionParser::parse_list(int line, std::string_view close) {
  Expression list{.kind = Kind::list, .line = line};
  while (!error_ && !take_if(close)) {
    list.parts.push_back(parse_choice());
    if (!take_if(",") && !at(close)) fail("'" + peek().text + "' in a list");
  }
  return make(std::move(list));
}

ExpressionPtr ExpressionParser::parse_map(int line) {
  Expression map{.kind = Kind::map, .line = line};
  while (!error_ && !take_if("}")) {
    map.parts.push_back(parse_choice());
    if (!take_if(":")) fail("'" + peek().text + "' in a mapping");
    map.parts.push_back(parse_choice());
    if (!take_if(",") && !at("}")) fail("'" + peek().text + "' in a mapping");
  }
  return make(std::move(map));
}

void ExpressionParser::parse_arguments(Expression& into) {
  into.names.resize(into.parts.size());
  while (!error_ && !take_if(")")) {
    std::string name;
    if (at(Token::Kind::name) && at_ + 1 < tokens_.size() &&
        tokens_[at_ + 1].kind == Token::Kind::symbol && tokens_[at_ + 1].text == "=") {
      name = take().text;
      take();
    } else if (!into.names.empty() && !into.names.back().empty()) {
      fail("a positional argument after a named one");
    }
    into.parts.push_back(parse_choice());
    into.names.push_back(std::move(name));
    if (!take_if(",") && !at(")")) fail("'" + peek().text + "' in a list");
  }
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr expression) {
  while (!error_) {
    if (at(".")) {
      expression = parse_dot(std::move(expression));
    } else if (at("[")) {
      expression = parse_bracket(std::move(expression));
    } else {
      return expression;
    }
  }
  return nullptr;
}

ExpressionPtr ExpressionParser::parse_suffixes(ExpressionPtr expression) {
  while (!error_) {
    expression = parse_postfix(std::move(expression));
    if (at("|")) {
      expression = parse_filter(std::move(expression));
    } else if (at("is")) {
      expression = parse_test(std::move(expression));
    } else {
      return expression;
    }
  }
  return nullptr;
}

ExpressionPtr ExpressionParser::parse_dot(ExpressionPtr object) {
  const int line = take().line;
  if (!at(Token::Kind::name)) fail("'" + peek().text + "' after a dot");
  const std::string name = take().text;
  const bool is_method = take_if("(");
  Expression result{.kind = is_method ? Kind::method : Kind::attribute, .line = line, .text = name};
  result.parts.push_back(std::move(object));
  if (is_method) parse_arguments(result);
  return make(std::move(result));
}

ExpressionPtr ExpressionParser::parse_bracket(ExpressionPtr object) {
  const int line = take().line;
  // [a], or [a:b:c] with any part omitted.
  std::vector<ExpressionPtr> parts = list_of(std::move(object), nullptr, nullptr, nullptr);
  std::size_t at_part = 1;
  if (!at(":")) parts[1] = parse_choice();
  for (; !error_ && at_part < 3 && take_if(":"); ++at_part) {
    if (!at(":") && !at("]")) parts[at_part + 1] = parse_choice();
  }
  if (!take_if("]")) fail("'" + peek().text + "' in brackets");
  if (at_part > 1) return make({.kind = Kind::slice, .line = line, .parts = std::move(parts)});
  return make({.kind = Kind::index,
               .line = line,
               .parts = list_of(std::move(parts[0]), std::move(parts[1]))});
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr object) {
  const int line = take().line;
  if (!at(Token::Kind::name)) fail("'" + peek().text + "' after |");
  Expression filter{.kind = Kind::filter, .line = line, .text = take().text};
  filter.parts.push_back(std::move(object));
  if (take_if("(")) parse_arguments(filter);
  return make(std::move(filter));
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr object) {
  const int line = take().line;
  const bool negated = take_if("not");
  if (!at(Token::Kind::name)) fail("'" + peek().text + "' after 'is'");
  Expression test{.kind = Kind::test, .line = line, .text = take().text};
  test.parts.push_back(std::move(object));
  if (take_if("(")) {
    parse_arguments(test);
  } else if (contains({"equalto", "eq", "ne", "in", "sameas", "gt", "ge", "lt", "le"}, test.text)) {
    test.parts.push_back(parse_postfix(parse_primary()));
  }
  ExpressionPtr tested = make(std::move(test));
  if (!negated) return tested;
  return make({.kind = Kind::invert, .line = line, .parts = list_of(std::move(tested))});
}

}  // namespace edgedraft::chat
