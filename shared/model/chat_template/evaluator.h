#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/parser.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// Variables of a block. Names that it lacks are looked up in the blocks around it.
struct Scope : std::enable_shared_from_this<Scope> {
  explicit Scope(Map names, std::shared_ptr<Scope> around = nullptr)
      : variables(std::move(names)), parent(std::move(around)) {}

  Map variables;
  std::shared_ptr<Scope> parent;
};

// Runs a template once.
class Evaluator {
 public:
  // `now` is the time for strftime_now().
  Evaluator(Map globals, std::chrono::system_clock::time_point now);

  // Errors    unsupported: the template refuses, or an operation is invalid for its values
  //           usage: a limit is exceeded
  Result<MarkedText> run(const Body& body);

 private:
  // Control flow after a statement: break and continue end bodies up to their loop.
  enum class Flow : unsigned char { go_on, next_turn, leave_loop };

  // Replaces the current scope until its end.
  class ScopeGuard;
  // Counts a level of recursion, which macros make unbounded.
  class Level;

  Flow run_body(const Body& body);
  Flow run_statement(const Statement& statement);
  Flow run_condition(const Statement& statement);
  void run_loop(const Statement& statement);
  std::vector<Value> loop_items(const Statement& statement);
  void set_variable(const std::string& name, Value value);
  void bind(const Target& target, const Value& value, int line);
  void bind_member(const Target& target, Value value, int line);
  void assign(const Statement& statement);
  // Output of a statement's body, run in a scope of its own.
  Value capture(const Statement& statement);
  // Evaluates filters of a block's output.
  Value filtered(const ExpressionPtr& filters, Value captured);
  void run_group(const Statement& statement);
  Value function_of(const Statement& statement);
  void write(const Value& value, int line);

  Value evaluate(const Expression& expression);
  Value evaluate_operation(const Expression& expression);
  Arguments arguments(const Expression& expression, std::size_t first);
  // `name` is in the template's tree: an undefined value refers to it.
  Value lookup(const std::string& name);
  Value attribute(const Value& object, const std::string& name, int line);
  Value index(const Value& object, const Value& key, int line);
  Value slice(const Expression& expression);
  Value make_map(const Expression& expression);
  Value binary(const Expression& expression);
  Value compare(const Expression& expression);

  // `caller` is the body of {% call %}; null for other calls.
  Value call(const Expression& expression, const Value* caller);
  Value call_value(const Value& callee, Arguments given, const std::string& name, int line);
  Value call_macro(const Function& function, Arguments given, int line);
  bool bind_parameters(const Statement& macro, Arguments& given, int line);
  Value call_builtin(const std::string& name, Arguments given, int line);
  void raise_exception(const Arguments& given, int line);
  Value make_namespace(Arguments given, int line);
  Value make_dict(Arguments given, int line);
  Value make_range(const Arguments& given, int line);
  Value format_now(const Arguments& given, int line);

  std::chrono::system_clock::time_point now_;
  std::shared_ptr<Scope> scope_;
  // Scopes that macros refer to.
  std::vector<std::shared_ptr<Scope>> kept_;
  std::vector<Map> namespaces_;
  Value captured_;
  MarkedText output_;
  std::size_t level_ = 0;
  Meter meter_;
};

}  // namespace edgedraft::chat
