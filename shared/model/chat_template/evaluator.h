#pragma once

#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/chat_template/meter.h"
#include "shared/model/chat_template/parser.h"

namespace edgedraft::chat {

// Runs a template once.
class Evaluator {
 public:
  explicit Evaluator(Map globals);

  // Errors    unsupported: the template refuses, or does what these values do not allow
  //           usage: a limit is exceeded
  Result<std::string> run(const Body& body);

 private:
  void run_body(const Body& body);
  void run_statement(const Statement& statement);
  void run_loop(const Statement& statement);
  void write(const Value& value, int line);

  Value evaluate(const Expression& expression);
  Value lookup(const std::string& name) const;
  Value attribute(const Value& object, const std::string& name, int line);
  Value index(const Value& object, const Value& key, int line);
  Value slice(const Expression& expression);
  Value method(const Expression& expression);
  Value filter(const Value& value, const std::string& name, int line);
  Value test(const Expression& expression);
  Value binary(const Expression& expression);

  std::vector<Map> scopes_;
  std::string output_;
  Meter meter_;
};

}  // namespace edgedraft::chat
