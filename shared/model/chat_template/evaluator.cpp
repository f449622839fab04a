#include "shared/model/chat_template/evaluator.h"

#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/lexer.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"
#include "shared/model/chat_template/recursion.h"

namespace edgedraft::chat {

Evaluator::Evaluator(Map globals, std::chrono::system_clock::time_point now)
    : now_(now), scope_(std::make_shared<Scope>(std::move(globals))) {}

Result<MarkedText> Evaluator::run(const Body& body) {
  run_body(body);
  if (meter_.error()) return *meter_.error();
  return std::move(output_);
}

Evaluator::Flow Evaluator::run_body(const Body& body) {
  for (const Statement& statement : body) {
    const Level level(*this, statement.line);
    if (!meter_.spend(1)) return Flow::leave_loop;
    const Flow flow = run_statement(statement);
    if (flow != Flow::go_on) return flow;
  }
  return Flow::go_on;
}

Evaluator::Flow Evaluator::run_statement(const Statement& statement) {
  using Kind = Statement::Kind;
  switch (statement.kind) {
    case Kind::text:
      write(text_value(meter_, MarkedText::own(statement.text)), statement.line);
      break;
    case Kind::output:
      write(evaluate(*statement.expression), statement.line);
      break;
    case Kind::assign:
      assign(statement);
      break;
    case Kind::filter:
      write(filtered(statement.expression, capture(statement)), statement.line);
      break;
    case Kind::loop:
      run_loop(statement);
      break;
    case Kind::macro:
      set_variable(statement.text, function_of(statement));
      break;
    case Kind::call: {
      const Value caller = function_of(statement);
      write(call(*statement.expression, &caller), statement.line);
      break;
    }
    case Kind::group:
      run_group(statement);
      break;
    case Kind::next_turn:
      return Flow::next_turn;
    case Kind::leave_loop:
      return Flow::leave_loop;
    case Kind::condition:
      return run_condition(statement);
  }
  return Flow::go_on;
}

Evaluator::Flow Evaluator::run_condition(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition && !evaluate(*branch.condition).truthy()) continue;
    return run_body(branch.body);
  }
  return Flow::go_on;
}

void Evaluator::set_variable(const std::string& name, Value value) {
  set_member(meter_, scope_->variables, Value::text(name), std::move(value));
}

void Evaluator::assign(const Statement& statement) {
  Value value = statement.branches.empty() ? evaluate(*statement.expression)
                                           : filtered(statement.expression, capture(statement));
  if (!meter_.error()) bind(statement.target, value, statement.line);
}

Value Evaluator::capture(const Statement& statement) {
  const ScopeGuard scope(*this, scope_);
  MarkedText before = std::exchange(output_, {});
  run_body(statement.branches[0].body);
  return text_value(meter_, std::exchange(output_, std::move(before)));
}

Value Evaluator::filtered(const ExpressionPtr& filters, Value captured) {
  if (!filters || meter_.error()) return captured;
  Value before = std::exchange(captured_, std::move(captured));
  Value value = evaluate(*filters);
  captured_ = std::move(before);
  return value;
}

void Evaluator::run_group(const Statement& statement) {
  std::vector<Value> values;  // before the scope begins
  for (const Parameter& variable : statement.parameters) {
    values.push_back(evaluate(*variable.fallback));
  }
  const ScopeGuard scope(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    set_variable(statement.parameters[i].name, std::move(values[i]));
  }
  if (!meter_.error()) run_body(statement.branches[0].body);
}

Value Evaluator::function_of(const Statement& statement) {
  if (kept_.empty() || kept_.back() != scope_) kept_.push_back(scope_);
  return Value::function({.name = statement.text, .macro = &statement, .scope = scope_.get()});
}

void Evaluator::bind(const Target& target, const Value& value, int line) {
  if (!target.member.empty()) return bind_member(target, value, line);
  if (!target.name.empty()) return set_variable(target.name, value);
  const auto items = items_to_read(meter_, value, line);
  if (!items) return;
  if (items->size() != target.parts.size()) {
    return meter_.fail(line, "cannot assign " + std::to_string(items->size()) + " values to " +
                                 std::to_string(target.parts.size()) + " names");
  }
  for (std::size_t i = 0; i < items->size() && !meter_.error(); ++i) {
    bind(target.parts[i], (*items)[i], line);
  }
}

void Evaluator::bind_member(const Target& target, Value value, int line) {
  const Value object = lookup(target.name);
  if (object.as_namespace() == nullptr) {
    return meter_.unsupported(line, "{% set %} of a member of " + object.type_name());
  }
  Map& members = namespaces_[object.as_namespace()->index];
  set_member(meter_, members, Value::text(target.member), std::move(value));
}

std::vector<Value> Evaluator::loop_items(const Statement& statement) {
  const Value over = evaluate(*statement.expression);
  if (meter_.error()) return {};
  auto items = items_to_read(meter_, over, statement.line);
  if (!items) return {};
  const ExpressionPtr& condition = statement.branches[0].condition;
  if (!condition) return *std::move(items);
  std::vector<Value> chosen;
  for (Value& item : *items) {
    if (!meter_.spend(1)) return {};
    const ScopeGuard scope(*this, scope_);
    bind(statement.target, item, statement.line);
    if (evaluate(*condition).truthy()) chosen.push_back(std::move(item));
  }
  return chosen;
}

void Evaluator::run_loop(const Statement& statement) {
  const std::vector<Value> items = loop_items(statement);
  if (meter_.error()) return;
  if (items.empty() && statement.branches.size() > 1) {
    const ScopeGuard scope(*this, scope_);
    run_body(statement.branches[1].body);
    return;
  }
  const auto count = static_cast<std::int64_t>(items.size());
  for (std::int64_t i = 0; i < count && meter_.spend(1); ++i) {
    const auto at = static_cast<std::size_t>(i);
    // A variable set in a loop lasts for one iteration, as in Jinja.
    const ScopeGuard scope(*this, scope_);
    bind(statement.target, items[at], statement.line);
    if (meter_.error()) return;
    Map loop = {{"index0", {i}},
                {"index", {i + 1}},
                {"revindex0", {count - 1 - i}},
                {"revindex", {count - i}},
                {"first", {i == 0}},
                {"last", {i + 1 == count}},
                {"length", {count}},
                {"previtem", i == 0 ? Value{} : items[at - 1]},
                {"nextitem", i + 1 == count ? Value{} : items[at + 1]}};
    scope_->variables.set("loop", Value::map(std::move(loop)));
    if (run_body(statement.branches[0].body) == Flow::leave_loop) break;
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

}  // namespace edgedraft::chat
