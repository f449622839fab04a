#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/parser.h"
#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

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

  Flow run_body(const Body& body);
  Flow run_statement(const Statement& statement);
  void run_loop(const Statement& statement);
  std::vector<Value> loop_items(const Statement& statement);
  void bind_targets(const Statement& statement, const Value& item, Map& scope);
  void assign(const Statement& statement);
  void assign_member(const Statement& statement, Value value);
  void write(const Value& value, int line);

  Value evaluate(const Expression& expression);
  Arguments arguments(const Expression& expression, std::size_t first);
  Value lookup(const std::string& name);
  Value attribute(const Value& object, const std::string& name, int line);
  Value index(const Value& object, const Value& key, int line);
  Value slice(const Expression& expression);
  Value call(const Expression& expression);
  Value make_range(const Arguments& arguments, int line);
  Value format_now(const Arguments& arguments, int line);
  Value make_map(const Expression& expression);
  Value binary(const Expression& expression);

  std::chrono::system_clock::time_point now_;
  std::deque<Map> scopes_;
  std::vector<Map> namespaces_;
  MarkedText output_;
  Meter meter_;
};

}  // namespace edgedraft::chat
