#include "shared/model/chat_template/evaluator.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/filters.h"
#include "shared/model/chat_template/lexer.h"
#include "shared/model/chat_template/methods.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {

Evaluator::Evaluator(Map globals, std::chrono::system_clock::time_point now) : now_(now) {
  scopes_.push_back(std::move(globals));
}

Result<MarkedText> Evaluator::run(const Body& body) {
  run_body(body);
  if (meter_.error()) return *meter_.error();
  return std::move(output_);
}

Evaluator::Flow Evaluator::run_body(const Body& body) {
  for (const Statement& statement : body) {
    if (!meter_.spend(1)) return Flow::leave_loop;
    const Flow flow = run_statement(statement);
    if (flow != Flow::go_on) return flow;
  }
  return Flow::go_on;
}

Evaluator::Flow Evaluator::run_statement(const Statement& statement) {
  switch (statement.kind) {
    case Statement::Kind::text:
      write(text_value(meter_, MarkedText::own(statement.text)), statement.line);
      break;
    case Statement::Kind::output:
      write(evaluate(*statement.expression), statement.line);
      break;
    case Statement::Kind::assign:
      assign(statement);
      break;
    case Statement::Kind::loop:
      run_loop(statement);
      break;
    case Statement::Kind::group:
      return run_body(statement.branches[0].body);
    case Statement::Kind::next_turn:
      return Flow::next_turn;
    case Statement::Kind::leave_loop:
      return Flow::leave_loop;
    case Statement::Kind::condition:
      for (const Branch& branch : statement.branches) {
        if (branch.condition && !evaluate(*branch.condition).truthy()) continue;
        return run_body(branch.body);
      }
      break;
  }
  return Flow::go_on;
}

void Evaluator::assign(const Statement& statement) {
  if (statement.expression) {
    assign_member(statement, evaluate(*statement.expression));
    return;
  }
  // {% set x %}...{% endset %}: assigns the body's output.
  MarkedText before = std::exchange(output_, {});
  run_body(statement.branches[0].body);
  assign_member(statement, text_value(meter_, std::exchange(output_, std::move(before))));
}

void Evaluator::assign_member(const Statement& statement, Value value) {
  if (meter_.error()) return;
  if (statement.targets.size() == 1) {
    set_member(meter_, scopes_.back(), MarkedText::own(statement.targets[0]), std::move(value));
    return;
  }
  const Value object = lookup(statement.targets[0]);
  if (object.as_namespace() == nullptr) {
    return meter_.unsupported(statement.line, "{% set %} of a member of " + object.type_name());
  }
  // Forbid cycles: a namespace containing itself would never be freed.
  if (value.as_namespace() != nullptr) {
    return meter_.unsupported(statement.line, "a namespace in a namespace");
  }
  Map& members = namespaces_[object.as_namespace()->index];
  set_member(meter_, members, MarkedText::own(statement.targets[1]), std::move(value));
}

std::vector<Value> Evaluator::loop_items(const Statement& statement) {
  const Value over = evaluate(*statement.expression);
  if (over.is_undefined() || meter_.error()) return {};
  std::vector<Value> items;
  if (const auto* list = over.as_list()) {
    if (!meter_.spend(list->size() / 8)) return {};
    items = *list;
  } else if (const Map* map = over.as_map()) {
    for (const auto& [name, value] : map->entries) items.push_back(text_value(meter_, name));
  } else {
    meter_.fail(statement.line, "cannot loop over " + over.type_name());
    return {};
  }
  const ExpressionPtr& condition = statement.branches[0].condition;
  if (!condition) return items;
  std::vector<Value> chosen;
  for (Value& item : items) {
    if (!meter_.spend(1)) return {};
    bind_targets(statement, item, scopes_.emplace_back());
    const bool wanted = evaluate(*condition).truthy();
    scopes_.pop_back();
    if (wanted) chosen.push_back(std::move(item));
  }
  return chosen;
}

void Evaluator::bind_targets(const Statement& statement, const Value& item, Map& scope) {
  const auto bind = [&](std::size_t i, const Value& value) {
    set_member(meter_, scope, MarkedText::own(statement.targets[i]), value);
  };
  if (statement.targets.size() == 1) return bind(0, item);
  const auto* parts = item.as_list();
  if (parts == nullptr || parts->size() != statement.targets.size()) {
    return meter_.fail(statement.line,
                       "cannot unpack " + item.type_name() + " in a loop over pairs");
  }
  for (std::size_t i = 0; i < parts->size() && !meter_.error(); ++i) bind(i, (*parts)[i]);
}

void Evaluator::run_loop(const Statement& statement) {
  const std::vector<Value> items = loop_items(statement);
  if (meter_.error()) return;
  if (items.empty() && statement.branches.size() > 1) {
    run_body(statement.branches[1].body);
    return;
  }
  const auto count = static_cast<std::int64_t>(items.size());
  for (std::int64_t i = 0; i < count && meter_.spend(1); ++i) {
    const auto at = static_cast<std::size_t>(i);
    // A variable set in a loop lasts for one iteration, as in Jinja.
    Map& scope = scopes_.emplace_back();
    bind_targets(statement, items[at], scope);
    Map loop = {{"index0", {i}},
                {"index", {i + 1}},
                {"revindex0", {count - 1 - i}},
                {"revindex", {count - i}},
                {"first", {i == 0}},
                {"last", {i + 1 == count}},
                {"length", {count}},
                {"previtem", i == 0 ? Value{} : items[at - 1]},
                {"nextitem", i + 1 == count ? Value{} : items[at + 1]}};
    scope.set("loop", Value::map(std::move(loop)));
    const Flow flow = run_body(statement.branches[0].body);
    scopes_.pop_back();
    if (flow == Flow::leave_loop) break;
  }
}

void Evaluator::write(const Value& value, int line) {
  const auto text = printed(meter_, value, line);
  if (!text || meter_.error()) return;
  if (text->size() > kTemplateOutputBytesMax - output_.size()) {
    meter_.stop(output_too_long());
    return;
  }
  output_.append(*text);
}

Value Evaluator::evaluate(const Expression& expression) {
  using Kind = Expression::Kind;
  if (!meter_.spend(1)) return {};
  const int line = expression.line;
  const auto part = [&](std::size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case Kind::literal:
      return expression.value;
    case Kind::variable:
      return lookup(expression.text);
    case Kind::attribute:
      return attribute(part(0), expression.text, line);
    case Kind::index: {
      const Value object = part(0);
      return index(object, part(1), line);
    }
    case Kind::slice:
      return slice(expression);
    case Kind::call:
      return call(expression);
    case Kind::method: {
      const Value object = part(0);
      return call_method(meter_, object, expression.text, arguments(expression, 1), line);
    }
    case Kind::filter: {
      const Value value = part(0);
      return apply_filter(meter_, value, expression.text, arguments(expression, 1), line);
    }
    case Kind::test: {
      const Value value = part(0);
      return apply_test(meter_, value, expression.text, arguments(expression, 1), line);
    }
    case Kind::binary:
      return binary(expression);
    case Kind::invert:
      return {!part(0).truthy()};
    case Kind::negate:
      return arithmetic(meter_, "-", {std::int64_t{0}}, part(0), line);
    case Kind::choice:
      if (part(1).truthy()) return part(0);
      return expression.parts[2] ? part(2) : Value{};
    case Kind::list:
      return list_value(meter_, line, arguments(expression, 0).positional);
    case Kind::map:
      return make_map(expression);
  }
  return {};
}

Arguments Evaluator::arguments(const Expression& expression, std::size_t first) {
  Arguments out;
  for (std::size_t i = first; i < expression.parts.size() && !meter_.error(); ++i) {
    const std::string& name = expression.names.empty() ? std::string() : expression.names[i];
    Value value = evaluate(*expression.parts[i]);
    if (name.empty()) {
      out.positional.push_back(std::move(value));
    } else {
      out.named.emplace_back(name, std::move(value));
    }
  }
  return out;
}

Value Evaluator::lookup(const std::string& name) {
  if (!meter_.spend_bytes(name.size())) return {};
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (!meter_.spend(scope->entries.size() / 16)) return {};
    if (const Value* found = scope->find(name)) return *found;
  }
  return {};
}

Value Evaluator::attribute(const Value& object, const std::string& name, int line) {
  if (const Namespace* space = object.as_namespace()) {
    return member(meter_, namespaces_[space->index], name);
  }
  return attribute_of(meter_, object, name, line);
}

Value Evaluator::index(const Value& object, const Value& key, int line) {
  if (const std::string* name = key.as_text()) return attribute(object, *name, line);
  const std::int64_t* at = key.as_integer();
  const auto* list = object.as_list();
  const MarkedText* text = object.as_marked();
  if ((list == nullptr && text == nullptr) || at == nullptr) {
    meter_.fail(line, object.type_name() + " cannot be indexed by " + key.type_name());
    return {};
  }
  std::vector<std::size_t> bounds;
  if (text != nullptr) {
    if (!meter_.spend(text->size() / 8)) return {};
    bounds = character_bounds(text->text());
  }
  const auto count = static_cast<std::int64_t>(list != nullptr ? list->size() : bounds.size() - 1);
  const std::int64_t i = *at < 0 ? *at + count : *at;
  if (i < 0 || i >= count) return {};
  const auto place = static_cast<std::size_t>(i);
  if (list != nullptr) return (*list)[place];
  return text_value(meter_, text->slice(bounds[place], bounds[place + 1]));
}

// Python's rules for object[first:last:step].
Value Evaluator::slice(const Expression& expression) {
  const Value object = evaluate(*expression.parts[0]);
  const auto* list = object.as_list();
  const MarkedText* text = object.as_marked();
  if (list == nullptr && text == nullptr) {
    meter_.unsupported(expression.line, "a slice of " + object.type_name());
    return {};
  }
  std::vector<std::size_t> bounds;
  if (text != nullptr && meter_.spend(text->size() / 8)) bounds = character_bounds(text->text());
  std::optional<std::int64_t> given[3];
  for (std::size_t i = 0; i < 3 && !meter_.error(); ++i) {
    if (!expression.parts[i + 1]) continue;
    const Value value = evaluate(*expression.parts[i + 1]);
    if (value.is_none()) continue;
    if (value.as_integer() == nullptr) {
      meter_.fail(expression.line, "a bound of a slice is " + value.type_name() + ", not a number");
    } else {
      given[i] = *value.as_integer();
    }
  }
  if (given[2] == 0) meter_.fail(expression.line, "the step of a slice is zero");
  if (meter_.error()) return {};
  const auto count = static_cast<std::int64_t>(list != nullptr ? list->size() : bounds.size() - 1);
  const std::int64_t step = given[2].value_or(1);
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? count : count - 1;
  const auto bound = [&](std::optional<std::int64_t> value, std::int64_t fallback) {
    if (!value) return fallback;
    return std::clamp(*value < 0 ? *value + count : *value, low, high);
  };
  const std::int64_t first = bound(given[0], step > 0 ? low : high);
  const std::int64_t last = bound(given[1], step > 0 ? high : low);
  std::vector<Value> items;
  MarkedText part;
  // Literals have at most nine digits, but sums may be longer.
  const std::int64_t stride = std::clamp<std::int64_t>(step, -count - 1, count + 1);
  for (std::int64_t i = first; stride > 0 ? i < last : i > last; i += stride) {
    if (!meter_.spend(1)) return {};
    const auto at = static_cast<std::size_t>(i);
    if (list != nullptr) {
      items.push_back((*list)[at]);
    } else {
      part.append(text->slice(bounds[at], bounds[at + 1]));
    }
  }
  if (list == nullptr) return text_value(meter_, std::move(part));
  return list_value(meter_, expression.line, std::move(items));
}

Value Evaluator::call(const Expression& expression) {
  const int line = expression.line;
  Arguments given = arguments(expression, 0);
  if (meter_.error()) return {};
  if (expression.text == "raise_exception") {
    const auto message = printed(meter_, given.get(0, "message"), line);
    if (message) {
      meter_.stop({Errc::unsupported, "the chat template rejects this conversation: " +
                                          message->text() + std::string(kRemedy)});
    }
    return {};
  }
  if (expression.text == "namespace") {
    Map members;
    for (auto& [name, value] : given.named) {
      if (value.as_namespace() != nullptr) meter_.unsupported(line, "a namespace in a namespace");
      if (meter_.error()) return {};
      set_member(meter_, members, MarkedText::own(name), std::move(value));
    }
    namespaces_.push_back(std::move(members));
    return {Namespace{namespaces_.size() - 1}};
  }
  if (expression.text == "range") return make_range(given, line);
  if (expression.text == "strftime_now") return format_now(given, line);
  if (expression.text == "dict") {
    Map map;
    for (auto& [name, value] : given.named) {
      if (meter_.error()) return {};
      set_member(meter_, map, MarkedText::own(name), std::move(value));
    }
    return map_value(meter_, line, std::move(map));
  }
  meter_.unsupported(line, "the function " + expression.text + "()");
  return {};
}

Value Evaluator::format_now(const Arguments& given, int line) {
  const std::string* const format = given.get(0, "format").as_text();
  const std::time_t now = std::chrono::system_clock::to_time_t(now_);
  std::tm parts{};
  if (format == nullptr || given.count() != 1 || localtime_r(&now, &parts) == nullptr) {
    meter_.fail(line, "invalid arguments of strftime_now()");
    return {};
  }
  char text[256];
  const std::size_t size = std::strftime(text, sizeof text, format->c_str(), &parts);
  if (size == 0 && !format->empty()) {
    meter_.fail(line, "the format of strftime_now() yields nothing, or more than 255 bytes");
    return {};
  }
  return text_value(meter_, MarkedText::own(std::string(text, size)));
}

Value Evaluator::make_range(const Arguments& given, int line) {
  std::int64_t numbers[3] = {0, 0, 1};
  const std::size_t count = given.positional.size();
  bool sound = count >= 1 && count <= 3 && given.named.empty();
  for (std::size_t i = 0; sound && i < count; ++i) {
    const std::int64_t* number = given.positional[i].as_integer();
    sound = number != nullptr;
    if (sound) numbers[count == 1 ? 1 : i] = *number;
  }
  const auto [first, last, step] = numbers;
  if (!sound || step == 0) {
    meter_.fail(line, "invalid arguments of range()");
    return {};
  }
  std::vector<Value> items;
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    if (!meter_.spend(1)) return {};
    items.push_back({i});
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return list_value(meter_, line, std::move(items));
}

// parts: key, value, key, value, ...
Value Evaluator::make_map(const Expression& expression) {
  Map map;
  for (std::size_t i = 0; i + 1 < expression.parts.size() && !meter_.error(); i += 2) {
    const Value key = evaluate(*expression.parts[i]);
    if (key.as_text() == nullptr) {
      meter_.unsupported(expression.line, "a mapping with the key " + key.type_name());
      return {};
    }
    set_member(meter_, map, *key.as_marked(), evaluate(*expression.parts[i + 1]));
  }
  return map_value(meter_, expression.line, std::move(map));
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
