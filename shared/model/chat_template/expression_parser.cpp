#include "shared/model/chat_template/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "shared/model/chat_template.h"

namespace edgedraft::chat {
namespace {

using Kind = Expression::Kind;

// Operators by precedence, loosest first.
constexpr int kComparison = 2;
constexpr int kUnary = 7;
constexpr std::pair<std::string_view, int> kOperators[] = {
    {"or", 0}, {"and", 1}, {"in", 2}, {"not", 2}, {"==", 2}, {"!=", 2},
    {"<", 2},  {"<=", 2},  {">", 2},  {">=", 2},  {"+", 3},  {"-", 3},
    {"~", 4},  {"%", 5},   {"*", 5},  {"/", 5},   {"//", 5}, {"**", 6}};

template <class... Parts>
std::vector<ExpressionPtr> list_of(Parts... parts) {
  std::vector<ExpressionPtr> list;
  (list.emplace_back(std::move(parts)), ...);
  return list;
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

ExpressionPtr ExpressionParser::parse() {
  if (++nesting_ > kTemplateDepthMax) fail("an expression nested that deeply");
  ExpressionPtr value = error_ ? nullptr : parse_binary();
  while (at("if")) {
    const int line = take().line;
    ExpressionPtr condition = parse_binary();
    ExpressionPtr otherwise = take_if("else") ? parse() : nullptr;
    value = make({.kind = Kind::choice,
                  .line = line,
                  .parts = list_of(std::move(value), std::move(condition), std::move(otherwise))});
  }
  --nesting_;
  return value;
}

bool ExpressionParser::at_operator(int level) const {
  return std::ranges::any_of(
      kOperators, [&](const auto& entry) { return entry.second == level && at(entry.first); });
}

ExpressionPtr ExpressionParser::parse_binary(int level) {
  if (level == kComparison) return parse_not();
  if (level == kUnary) return parse_suffixes(parse_signed());
  ExpressionPtr left = parse_binary(level + 1);
  while (at_operator(level)) {
    const Token name = take();
    ExpressionPtr right = parse_binary(level + 1);
    left = make({.kind = Kind::binary,
                 .line = name.line,
                 .text = name.text,
                 .parts = list_of(std::move(left), std::move(right))});
  }
  return left;
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
  ExpressionPtr left = parse_binary(kComparison + 1);
  if (!at_operator(kComparison)) return left;
  Expression chain{.kind = Kind::comparison, .line = peek().line};
  chain.parts.push_back(std::move(left));
  while (at_operator(kComparison)) {
    std::string name = take().text;
    if (name == "not") {
      if (!take_if("in")) fail("'not' here");
      name = "not in";
    }
    chain.names.push_back(std::move(name));
    chain.parts.push_back(parse_binary(kComparison + 1));
  }
  return make(std::move(chain));
}

ExpressionPtr ExpressionParser::parse_signed() {
  if (!at("-") && !at("+")) return parse_postfix(parse_primary());
  const Token sign = take();
  if (++nesting_ > kTemplateDepthMax) fail("an expression nested that deeply");
  ExpressionPtr inner = error_ ? nullptr : parse_signed();
  --nesting_;
  return make({.kind = sign.text == "-" ? Kind::negate : Kind::plus,
               .line = sign.line,
               .parts = list_of(std::move(inner))});
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = peek();
  const int line = token.line;
  switch (token.kind) {
    case Token::Kind::string: {
      std::string text = take().text;
      while (!error_ && at(Token::Kind::string)) text += take().text;
      return make({.kind = Kind::literal, .line = line, .value = Value::text(std::move(text))});
    }
    case Token::Kind::integer: {
      std::int64_t number = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      take();
      return make({.kind = Kind::literal, .line = line, .value = {number}});
    }
    case Token::Kind::fraction: {
      double number = 0;
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
    if (take_if(")")) return make({.kind = Kind::tuple, .line = line});
    ExpressionPtr inner = parse_tuple();
    if (!take_if(")")) fail("'" + peek().text + "' in parentheses");
    return inner;
  }
  if (take_if("[")) return parse_list(line);
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
  more_arguments_.caller |= text == "caller";
  more_arguments_.positional |= text == "varargs";
  more_arguments_.named |= text == "kwargs";
  return make({.kind = Kind::variable, .line = name.line, .text = text});
}

ExpressionPtr ExpressionParser::parse_tuple(Choice choice) {
  const int line = peek().line;
  ExpressionPtr first = choice == Choice::parsed ? parse() : parse_binary();
  if (!at(",")) return first;
  Expression tuple{.kind = Kind::tuple, .line = line, .parts = list_of(std::move(first))};
  while (!error_ && take_if(",")) {
    const bool ends =
        at(")") || at("=") || at(Token::Kind::block_end) || at(Token::Kind::output_end);
    if (!ends) tuple.parts.push_back(choice == Choice::parsed ? parse() : parse_binary());
  }
  return make(std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_list(int line) {
  Expression list{.kind = Kind::list, .line = line};
  while (!error_ && !take_if("]")) {
    list.parts.push_back(parse());
    if (!take_if(",") && !at("]")) fail("'" + peek().text + "' in a list");
  }
  return make(std::move(list));
}

ExpressionPtr ExpressionParser::parse_map(int line) {
  Expression map{.kind = Kind::map, .line = line};
  while (!error_ && !take_if("}")) {
    map.parts.push_back(parse());
    if (!take_if(":")) fail("'" + peek().text + "' in a mapping");
    map.parts.push_back(parse());
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
    into.parts.push_back(parse());
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
    } else if (at("(")) {
      expression = parse_call(std::move(expression));
    } else {
      return expression;
    }
  }
  return nullptr;
}

ExpressionPtr ExpressionParser::parse_suffixes(ExpressionPtr expression) {
  while (!error_) {
    expression = parse_postfix(std::move(expression));
    if (take_if("|")) {
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
  if (at(Token::Kind::integer)) {  // list.0
    ExpressionPtr index = parse_primary();
    return make(
        {.kind = Kind::index, .line = line, .parts = list_of(std::move(object), std::move(index))});
  }
  if (!at(Token::Kind::name)) fail("'" + peek().text + "' after a dot");
  return make({.kind = Kind::attribute,
               .line = line,
               .text = take().text,
               .parts = list_of(std::move(object))});
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  Expression call{.kind = Kind::call, .line = take().line};
  call.parts.push_back(std::move(callee));
  parse_arguments(call);
  return make(std::move(call));
}

ExpressionPtr ExpressionParser::parse_bracket(ExpressionPtr object) {
  const int line = take().line;
  // [a], or [a:b:c] with any part omitted.
  std::vector<ExpressionPtr> parts = list_of(std::move(object), nullptr, nullptr, nullptr);
  std::size_t at_part = 1;
  if (!at(":")) parts[1] = parse();
  for (; !error_ && at_part < 3 && take_if(":"); ++at_part) {
    if (!at(":") && !at("]")) parts[at_part + 1] = parse();
  }
  if (!take_if("]")) fail("'" + peek().text + "' in brackets");
  if (at_part > 1) return make({.kind = Kind::slice, .line = line, .parts = std::move(parts)});
  return make({.kind = Kind::index,
               .line = line,
               .parts = list_of(std::move(parts[0]), std::move(parts[1]))});
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr object) {
  const int line = peek().line;
  if (!at(Token::Kind::name)) fail("'" + peek().text + "' after |");
  Expression filter{.kind = Kind::filter, .line = line, .text = take().text};
  filter.parts.push_back(std::move(object));
  if (take_if("(")) parse_arguments(filter);
  return make(std::move(filter));
}

ExpressionPtr ExpressionParser::parse_filters_of_captured() {
  ExpressionPtr expression = make({.kind = Kind::captured, .line = peek().line});
  take_if("|");
  do {
    expression = parse_filter(std::move(expression));
  } while (!error_ && take_if("|"));
  return expression;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr object) {
  const int line = take().line;
  const bool negated = take_if("not");
  if (!at(Token::Kind::name)) fail("'" + peek().text + "' after 'is'");
  Expression test{.kind = Kind::test, .line = line, .text = take().text};
  test.parts.push_back(std::move(object));
  if (take_if("(")) {
    parse_arguments(test);
  } else if (at_argument_of_test()) {
    test.parts.push_back(parse_postfix(parse_primary()));
  }
  ExpressionPtr tested = make(std::move(test));
  if (!negated) return tested;
  return make({.kind = Kind::invert, .line = line, .parts = list_of(std::move(tested))});
}

bool ExpressionParser::at_argument_of_test() const {
  if (at(Token::Kind::string) || at(Token::Kind::integer) || at(Token::Kind::fraction)) return true;
  if (!at(Token::Kind::name)) return at("[") || at("{");
  constexpr std::string_view kNext[] = {"else", "or", "and", "if", "in", "not", "is"};
  return std::ranges::none_of(kNext, [this](std::string_view name) { return at(name); });
}

}  // namespace edgedraft::chat
