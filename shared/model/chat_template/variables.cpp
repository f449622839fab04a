#include "shared/model/chat_template/variables.h"

#include "shared/model/chat_template/attributes.h"
#include "shared/model/chat_template/operators.h"

namespace edgedraft::chat {

Value Variables::lookup(const std::string& name) {
  if (!meter_.spend_bytes(name.size())) return {};
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (!meter_.spend(scope->variables.entries.size() / 16)) return {};
    if (const Value* found = scope->variables.find(name)) return *found;
  }
  return {Undefined{&name}};
}

Value Variables::attribute(const Value& object, const std::string& name, int line) {
  const Namespace* space = object.as_namespace();
  Value value = space != nullptr ? member(meter_, namespaces_[space->index], name)
                                 : attribute_of(meter_, object, name, line);
  if (value.is_undefined()) return {Undefined{&name}};
  return value;
}

Value Variables::index(const Value& object, const Value& key, int line) {
  if (const Namespace* space = object.as_namespace(); space != nullptr && key.as_text()) {
    return member(meter_, namespaces_[space->index], *key.as_text());
  }
  return item_of(meter_, object, key, line);
}

void Variables::set(const std::string& name, Value value) {
  set_member(meter_, scope_->variables, Value::text(name), std::move(value));
}

void Variables::bind(const Target& target, const Value& value, int line) {
  if (!target.member.empty()) {
    const Value object = lookup(target.name);
    const Namespace* const space = object.as_namespace();
    if (space != nullptr) {
      return set_member(meter_, namespaces_[space->index], Value::text(target.member), value);
    }
    return meter_.unsupported(line, "{% set %} of a member of " + object.type_name());
  }
  if (!target.name.empty()) return set(target.name, value);
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

Value Variables::function_of(const Statement& statement) {
  if (kept_.empty() || kept_.back() != scope_) kept_.push_back(scope_);
  return Value::function({.name = statement.text, .macro = &statement, .scope = scope_.get()});
}

Value Variables::make_namespace(const Map& members) {
  namespaces_.push_back(members);
  return {Namespace{namespaces_.size() - 1}};
}

}  // namespace edgedraft::chat
