#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/parser.h"
#include "shared/model/chat_template/value.h"
#include "shared/model/chat_template/variables.h"

namespace edgedraft::chat {

// Levels of statements and expressions inside each other, through macros too. Bounds the stack:
// a level takes about 2 KiB.
inline constexpr std::size_t kRecursionMax = 256;

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

  std::size_t deeper(int line);
  Flow run_body(const Body& body);
  Flow run_statement(const Statement& statement);
  void run_loop(const Statement& statement);
  std::vector<Value> loop_items(const Statement& statement);
  void assign(const Statement& statement);
  // Output of a statement's body, run in a scope of its own.
  Value capture(const Statement& statement);
  // Evaluates filters of a block's output.
  Value filtered(const ExpressionPtr& filters, Value captured);
  void run_group(const Statement& statement);
  void write(const Value& value, int line);

  Value evaluate(const Expression& expression);
  Value evaluate_operation(const Expression& expression);
  Arguments arguments(const Expression& expression, std::size_t first);
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

  std::chrono::system_clock::time_point now_;
  Meter meter_;
  Variables variables_;
  Value captured_;
  MarkedText output_;
  std::size_t level_ = 0;
};

}  // namespace edgedraft::chat
