#include <algorithm>
#include <ctime>
#include <utility>

#include "shared/model/chat_template/attributes.h"
#include "shared/model/chat_template/evaluator.h"
#include "shared/model/chat_template/lexer.h"
#include "shared/model/chat_template/methods.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"

// The evaluator's functions, methods and macros.
namespace edgedraft::chat {
namespace {

Value raise_exception(Meter& meter, const Arguments& given, int line) {
  const auto message = printed(meter, given.get(0, "message"), line);
  if (!message) return {};
  meter.stop({Errc::unsupported, "the chat template rejects this conversation: " + message->text() +
                                     std::string(kRemedy)});
  return {};
}

// dict(mapping, name=value, ...)
Value make_dict(Meter& meter, Arguments given, int line) {
  Map map;
  if (!given.positional.empty()) {
    const Map* const first = given.positional[0].as_map();
    if (first == nullptr || given.positional.size() > 1) {
      meter.unsupported(line, "a mapping of " + given.positional[0].type_name());
      return {};
    }
    map = *first;
  }
  for (auto& [name, value] : given.named) {
    if (meter.error()) return {};
    set_member(meter, map, Value::text(name), std::move(value));
  }
  return map_value(meter, line, std::move(map));
}

Value format_time(Meter& meter, std::chrono::system_clock::time_point time, const Arguments& given,
                  int line) {
  const std::string* const format = given.get(0, "format").as_text();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  if (format == nullptr || given.count() != 1 || localtime_r(&seconds, &parts) == nullptr) {
    meter.fail(line, "invalid arguments of strftime_now()");
    return {};
  }
  char text[256];
  const std::size_t size = std::strftime(text, sizeof text, format->c_str(), &parts);
  if (size == 0 && !format->empty()) {
    meter.fail(line, "the format of strftime_now() yields nothing, or more than 255 bytes");
    return {};
  }
  return text_value(meter, MarkedText::own(std::string(text, size)));
}

Value make_range(Meter& meter, const Arguments& given, int line) {
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
    meter.fail(line, "invalid arguments of range()");
    return {};
  }
  std::vector<Value> items;
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    if (!meter.spend(1)) return {};
    items.push_back({i});
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return list_value(meter, line, std::move(items), ListKind::range);
}

}  // namespace

Value Evaluator::call(const Expression& expression, const Value* caller) {
  using Kind = Expression::Kind;
  const Expression& callee = *expression.parts[0];
  const int line = expression.line;
  // The callee comes first, as in Python.
  const bool is_attribute = callee.kind == Kind::attribute;
  const Value object = evaluate(is_attribute ? *callee.parts[0] : callee);
  if (meter_.error()) return {};
  const bool is_method = is_attribute && is_method_of(object, callee.text);
  const Value function =
      is_attribute && !is_method ? variables_.attribute(object, callee.text, line) : object;
  Arguments given = arguments(expression, 1);
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  if (meter_.error()) return {};
  if (is_method) return call_method(meter_, object, callee.text, given, line);
  if (is_attribute && function.as_function() == nullptr) {
    const bool is_loop = callee.parts[0]->kind == Kind::variable && callee.parts[0]->text == "loop";
    const Map* const loop = is_loop && callee.text == "cycle" ? object.as_map() : nullptr;
    // A template may set a variable of that name.
    const Value* const turn = loop == nullptr ? nullptr : loop->find("index0");
    if (turn != nullptr && turn->as_integer() != nullptr && !given.positional.empty()) {
      const auto i = static_cast<std::size_t>(*turn->as_integer());
      return given.positional[i % given.positional.size()];
    }
    meter_.unsupported(line, "the method ." + callee.text + "() of " + object.type_name());
    return {};
  }
  return call_value(function, std::move(given), callee.text, line);
}

Value Evaluator::call_value(const Value& callee, Arguments given, const std::string& name,
                            int line) {
  const Function* function = callee.as_function();
  if (function == nullptr) {
    const std::string what = name.empty() ? "such a value" : "'" + name + "'";
    meter_.fail(line, "cannot call " + what + ", which is " + callee.type_name());
    return {};
  }
  if (function->macro != nullptr) return call_macro(*function, std::move(given), line);
  if (function->object.is_undefined()) return call_builtin(function->name, std::move(given), line);
  return call_method(meter_, function->object, function->name, given, line);
}

Value Evaluator::call_macro(const Function& function, Arguments given, int line) {
  const Statement& macro = *function.macro;
  // Variables are those of the macro's definition, not of its caller.
  const auto block = variables_.enter(function.scope->shared_from_this());
  if (!bind_parameters(macro, given, line)) return {};
  const Temporary output(output_, MarkedText());
  run_body(macro.branches[0].body);
  return text_value(meter_, std::move(output_));
}

// Sets the parameters in the current scope, and what else the macro reads.
bool Evaluator::bind_parameters(const Statement& macro, Arguments& given, int line) {
  const auto take_named = [&given](const std::string& name) -> std::optional<Value> {
    const auto found = std::ranges::find(
        given.named, name, [](const auto& entry) -> const auto& { return entry.first; });
    if (found == given.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    given.named.erase(found);
    return value;
  };
  const std::size_t count = macro.parameters.size();
  for (std::size_t i = 0; i < count && !meter_.error(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    std::optional<Value> value;
    if (i < given.positional.size()) {
      value = std::move(given.positional[i]);
    } else if (meter_.spend(given.named.size() / 8)) {
      value = take_named(parameter.name);
    }
    if (!value && parameter.fallback) value = evaluate(*parameter.fallback);
    variables_.set(parameter.name, value ? *std::move(value) : Value{});
  }
  if (macro.reads_caller) {
    if (auto caller = take_named("caller")) variables_.set("caller", *std::move(caller));
  }
  if (macro.reads_more_named) {
    variables_.set("kwargs",
                   make_dict(meter_, {.positional = {}, .named = std::move(given.named)}, line));
  } else if (!given.named.empty()) {
    meter_.fail(line, "the macro '" + macro.text + "' has no parameter '" + given.named[0].first +
                          "', or it is given twice");
  }
  if (macro.reads_more_positional) {
    std::vector<Value> more;
    for (std::size_t i = count; i < given.positional.size(); ++i) {
      more.push_back(std::move(given.positional[i]));
    }
    variables_.set("varargs", list_value(meter_, line, std::move(more), ListKind::tuple));
  } else if (given.positional.size() > count) {
    meter_.fail(line,
                "the macro '" + macro.text + "' has only " + std::to_string(count) + " parameters");
  }
  return !meter_.error();
}

Value Evaluator::call_builtin(const std::string& name, Arguments given, int line) {
  if (name == "raise_exception") return raise_exception(meter_, given, line);
  if (name == "range") return make_range(meter_, given, line);
  if (name == "strftime_now") return format_time(meter_, now_, given, line);
  Value members = make_dict(meter_, std::move(given), line);
  if (name == "dict" || meter_.error()) return members;
  return variables_.make_namespace(*members.as_map());
}

}  // namespace edgedraft::chat
