#include "shared/model/chat_template/evaluator.h"

#include <algorithm>
#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/lexer.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {

Evaluator::Evaluator(Map globals) {
  scopes_.push_back(std::move(globals));
}

Result<std::string> Evaluator::run(const Body& body) {
  run_body(body);
  if (meter_.error()) return *meter_.error();
  return std::move(output_);
}

void Evaluator::run_body(const Body& body) {
  for (const Statement& statement : body) {
    if (!meter_.spend(1)) return;
    run_statement(statement);
  }
}

void Evaluator::run_statement(const Statement& statement) {
  switch (statement.kind) {
    case Statement::Kind::text:
      write(text_value(meter_, statement.text), statement.line);
      break;
    case Statement::Kind::output:
      write(evaluate(*statement.expression), statement.line);
      break;
    case Statement::Kind::assign:
      scopes_.back().insert_or_assign(statement.text, evaluate(*statement.expression));
      break;
    case Statement::Kind::loop:
      run_loop(statement);
      break;
    case Statement::Kind::condition:
      for (const Branch& branch : statement.branches) {
        if (branch.condition && !evaluate(*branch.condition).truthy()) continue;
        return run_body(branch.body);
      }
      break;
  }
}

void Evaluator::run_loop(const Statement& statement) {
  const Value over = evaluate(*statement.expression);
  if (over.is_undefined() || meter_.error()) return;
  const List* list = over.as_list();
  if (list == nullptr) return meter_.fail(statement.line, "a loop over " + over.type_name());
  const auto count = static_cast<std::int64_t>(list->size());
  for (std::int64_t i = 0; i < count && meter_.spend(1); ++i) {
    // A variable that is set in a loop ends with its turn, as in Jinja.
    Map& scope = scopes_.emplace_back();
    scope.insert_or_assign(statement.text, (*list)[static_cast<std::size_t>(i)]);
    scope.insert_or_assign("loop", Value::map({{"index0", {i}},
                                               {"index", {i + 1}},
                                               {"first", {i == 0}},
                                               {"last", {i + 1 == count}},
                                               {"length", {count}}}));
    run_body(statement.branches[0].body);
    scopes_.pop_back();
  }
}

void Evaluator::write(const Value& value, int line) {
  const auto text = printed(meter_, value, line);
  if (!text || meter_.error()) return;
  if (text->size() > kTemplateOutputBytesMax - output_.size()) {
    meter_.stop(output_too_long());
    return;
  }
  output_ += *text;
}

Value Evaluator::evaluate(const Expression& expression) {
  using Kind = Expression::Kind;
  if (!meter_.spend(1)) return {};
  const auto part = [&](std::size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case Kind::literal:
      return expression.value;
    case Kind::variable:
      return lookup(expression.text);
    case Kind::attribute:
      return attribute(part(0), expression.text, expression.line);
    case Kind::index: {
      const Value object = part(0);
      return index(object, part(1), expression.line);
    }
    case Kind::slice:
      return slice(expression);
    case Kind::method:
      return method(expression);
    case Kind::filter:
      return filter(part(0), expression.text, expression.line);
    case Kind::test:
      return test(expression);
    case Kind::binary:
      return binary(expression);
    case Kind::invert:
      return {!part(0).truthy()};
    case Kind::negate:
      return arithmetic(meter_, "-", {std::int64_t{0}}, part(0), expression.line);
    case Kind::choice:
      if (part(1).truthy()) return part(0);
      return expression.parts[2] ? part(2) : Value{};
    case Kind::list: {
      List list;
      for (std::size_t i = 0; i < expression.parts.size(); ++i) list.push_back(part(i));
      return Value::list(std::move(list));
    }
    case Kind::call: {
      const auto message = printed(meter_, part(0), expression.line);
      if (message) {
        meter_.stop({Errc::unsupported, "the chat template refuses this conversation: " + *message +
                                            std::string(kRemedy)});
      }
      return {};
    }
  }
  return {};
}

Value Evaluator::lookup(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(name);
    if (found != scope->end()) return found->second;
  }
  return {};
}

Value Evaluator::attribute(const Value& object, const std::string& name, int line) {
  if (const Map* map = object.as_map()) {
    const auto found = map->find(name);
    return found == map->end() ? Value{} : found->second;
  }
  if (object.is_undefined()) meter_.fail(line, "'" + name + "' of an undefined value is asked for");
  return {};
}

Value Evaluator::index(const Value& object, const Value& key, int line) {
  if (const std::string* name = key.as_text()) return attribute(object, *name, line);
  const List* list = object.as_list();
  const std::int64_t* at = key.as_integer();
  if (list == nullptr || at == nullptr) {
    meter_.fail(line, object.type_name() + " cannot be indexed by " + key.type_name());
    return {};
  }
  const auto count = static_cast<std::int64_t>(list->size());
  const std::int64_t i = *at < 0 ? *at + count : *at;
  return i >= 0 && i < count ? (*list)[static_cast<std::size_t>(i)] : Value{};
}

Value Evaluator::slice(const Expression& expression) {
  const Value object = evaluate(*expression.parts[0]);
  const List* list = object.as_list();
  if (list == nullptr) {
    meter_.fail(expression.line, "a slice of " + object.type_name() + " is not supported");
    return {};
  }
  const auto count = static_cast<std::int64_t>(list->size());
  std::int64_t bounds[2] = {0, count};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!expression.parts[i + 1]) continue;
    const Value value = evaluate(*expression.parts[i + 1]);
    if (value.as_integer() == nullptr) {
      meter_.fail(expression.line, "a slice up to " + value.type_name());
      return {};
    }
    const std::int64_t bound = *value.as_integer();
    bounds[i] = std::clamp<std::int64_t>(bound < 0 ? bound + count : bound, 0, count);
  }
  if (bounds[0] >= bounds[1]) return Value::list({});
  if (!meter_.spend(static_cast<std::size_t>(bounds[1] - bounds[0]))) return {};
  return Value::list(List(list->begin() + bounds[0], list->begin() + bounds[1]));
}

Value Evaluator::method(const Expression& expression) {
  const Value object = evaluate(*expression.parts[0]);
  const std::string* text = object.as_text();
  if (text == nullptr) {
    meter_.fail(expression.line, object.type_name() + " has no method ." + expression.text + "()");
    return {};
  }
  if (expression.parts.size() == 1) return text_value(meter_, apply_method(expression.text, *text));
  const Value argument = evaluate(*expression.parts[1]);
  const std::string* part = argument.as_text();
  if (part == nullptr) {
    meter_.fail(expression.line, "." + expression.text + "() of " + argument.type_name());
    return {};
  }
  if (!meter_.spend(part->size() / kBytesPerStep)) return {};
  return {expression.text == "startswith" ? text->starts_with(*part) : text->ends_with(*part)};
}

Value Evaluator::filter(const Value& value, const std::string& name, int line) {
  if (name == "length" || name == "count") {
    if (const List* list = value.as_list()) return {static_cast<std::int64_t>(list->size())};
    if (const Map* map = value.as_map()) return {static_cast<std::int64_t>(map->size())};
    if (const std::string* text = value.as_text()) {
      if (!meter_.spend(text->size() / kBytesPerStep)) return {};
      return {character_count(*text)};
    }
    meter_.fail(line, value.type_name() + " has no length");
    return {};
  }
  const auto text = printed(meter_, value, line);
  return text ? text_value(meter_, apply_method(name == "trim" ? "strip" : name, *text)) : Value{};
}

Value Evaluator::test(const Expression& expression) {
  const Value value = evaluate(*expression.parts[0]);
  if (expression.text == "defined") return {!value.is_undefined()};
  if (expression.text == "undefined") return {value.is_undefined()};
  if (expression.text == "none") return {value.is_none()};
  return {value.as_text() != nullptr};
}

Value Evaluator::binary(const Expression& expression) {
  const std::string& name = expression.text;
  const Value a = evaluate(*expression.parts[0]);
  if (name == "and" && !a.truthy()) return a;
  if (name == "or" && a.truthy()) return a;
  const Value b = evaluate(*expression.parts[1]);
  if (meter_.error() || name == "and" || name == "or") return b;
  return apply_binary(meter_, name, a, b, expression.line);
}

}  // namespace edgedraft::chat
