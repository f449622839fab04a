#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// Replaces a value until its end.
template <class T>
class Temporary {
 public:
  Temporary(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Temporary() { place_ = std::move(before_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

 private:
  T& place_;
  T before_;
};

// Variables and namespaces of a run. Failures are reported to the meter.
class Variables {
 public:
  Variables(Meter& meter, Map globals)
      : meter_(meter), scope_(std::make_shared<Scope>(std::move(globals))) {}

  // Begins a block inside the current one, or `around`, that ends with the result.
  Temporary<std::shared_ptr<Scope>> enter() { return enter(scope_); }
  Temporary<std::shared_ptr<Scope>> enter(std::shared_ptr<Scope> around) {
    return {scope_, std::make_shared<Scope>(Map(), std::move(around))};
  }

  // `name` is in the template's tree: an undefined value refers to it.
  Value lookup(const std::string& name);
  Value attribute(const Value& object, const std::string& name, int line);
  Value index(const Value& object, const Value& key, int line);
  void set(const std::string& name, Value value);
  void set_loop(Map loop) { scope_->variables.set("loop", Value::map(std::move(loop))); }
  void bind(const Target& target, const Value& value, int line);
  // A macro, or the body of {% call %}, which sees the current variables.
  Value function_of(const Statement& statement);
  Value make_namespace(const Map& members);

 private:
  Meter& meter_;
  std::shared_ptr<Scope> scope_;
  // Scopes that macros refer to.
  std::vector<std::shared_ptr<Scope>> kept_;
  std::vector<Map> namespaces_;
};

}  // namespace edgedraft::chat
