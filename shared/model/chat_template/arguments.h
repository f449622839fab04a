#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

// Arguments of a function, method, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  std::size_t count() const { return positional.size() + named.size(); }
  // Argument `i`, or the one of that name; undefined if missing.
  Value get(std::size_t i, std::string_view name) const {
    if (i < positional.size()) return positional[i];
    const auto found = std::find_if(named.begin(), named.end(),
                                    [name](const auto& entry) { return entry.first == name; });
    return found == named.end() ? Value{} : found->second;
  }
};

}  // namespace edgedraft::chat
