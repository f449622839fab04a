#include "shared/model/chat_template/evaluator.h"

#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"

namespace edgedraft::chat {

Evaluator::Evaluator(Map globals, std::chrono::system_clock::time_point now)
    : now_(now), variables_(meter_, std::move(globals)) {}

Result<MarkedText> Evaluator::run(const Body& body) {
  run_body(body);
  if (meter_.error()) return *meter_.error();
  return std::move(output_);
}

std::size_t Evaluator::deeper(int line) {
  if (level_ >= kRecursionMax) meter_.fail(line, "macros call each other too deeply");
  return level_ + 1;
}

Evaluator::Flow Evaluator::run_body(const Body& body) {
  for (const Statement& statement : body) {
    const Temporary level(level_, deeper(statement.line));
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
      variables_.set(statement.text, variables_.function_of(statement));
      break;
    case Kind::call: {
      const Value caller = variables_.function_of(statement);
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
      for (const Branch& branch : statement.branches) {
        if (branch.condition && !evaluate(*branch.condition).truthy()) continue;
        return run_body(branch.body);
      }
      break;
  }
  return Flow::go_on;
}

void Evaluator::assign(const Statement& statement) {
  Value value = statement.branches.empty() ? evaluate(*statement.expression)
                                           : filtered(statement.expression, capture(statement));
  if (!meter_.error()) variables_.bind(statement.target, value, statement.line);
}

Value Evaluator::capture(const Statement& statement) {
  const auto block = variables_.enter();
  const Temporary output(output_, MarkedText());
  run_body(statement.branches[0].body);
  return text_value(meter_, std::move(output_));
}

Value Evaluator::filtered(const ExpressionPtr& filters, Value captured) {
  if (!filters || meter_.error()) return captured;
  const Temporary value(captured_, std::move(captured));
  return evaluate(*filters);
}

void Evaluator::run_group(const Statement& statement) {
  std::vector<Value> values;  // before the scope begins
  for (const Parameter& variable : statement.parameters) {
    values.push_back(evaluate(*variable.fallback));
  }
  const auto block = variables_.enter();
  for (std::size_t i = 0; i < values.size(); ++i) {
    variables_.set(statement.parameters[i].name, std::move(values[i]));
  }
  if (!meter_.error()) run_body(statement.branches[0].body);
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
    const auto block = variables_.enter();
    variables_.bind(statement.target, item, statement.line);
    if (evaluate(*condition).truthy()) chosen.push_back(std::move(item));
  }
  return chosen;
}

void Evaluator::run_loop(const Statement& statement) {
  const std::vector<Value> items = loop_items(statement);
  if (meter_.error()) return;
  if (items.empty() && statement.branches.size() > 1) {
    const auto block = variables_.enter();
    run_body(statement.branches[1].body);
    return;
  }
  const auto count = static_cast<std::int64_t>(items.size());
  for (std::int64_t i = 0; i < count && meter_.spend(1); ++i) {
    const auto at = static_cast<std::size_t>(i);
    // A variable set in a loop lasts for one iteration, as in Jinja.
    const auto block = variables_.enter();
    variables_.bind(statement.target, items[at], statement.line);
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
    variables_.set_loop(std::move(loop));
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
