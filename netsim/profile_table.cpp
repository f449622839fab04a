#include "netsim/profile_table.h"

#include <cmath>
#include <sstream>

namespace edgedraft::netsim {
namespace {

std::optional<double> number_of(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  if (const auto* real = node.as_floating_point()) return real->get();
  return std::nullopt;
}

std::string range(double least, double most) {
  return "a number from " + plain(least) + " to " + plain(most);
}

}  // namespace

Duration milliseconds_of(double ms) {
  return Duration(std::llround(ms * 1e6));
}

Duration seconds_of(double s) {
  return Duration(std::llround(s * 1e9));
}

std::string plain(double value) {
  std::ostringstream out;
  out.precision(12);
  out << value;
  return out.str();
}

ProfileTable::ProfileTable(const toml::table& table, std::string file, std::string where)
    : table_(&table), file_(std::move(file)), where_(std::move(where)) {}

std::string ProfileTable::path_of(std::string_view key) const {
  return (where_.empty() ? "" : where_ + ".") + std::string(key);
}

Error ProfileTable::wrong(const char* key, const std::string& what, Errc code) const {
  const toml::node* node = table_->get(key);
  const auto line = (node ? node : table_)->source().begin.line;
  // A table that is not in the file at all has no line.
  const std::string at = line > 0 ? ":" + std::to_string(line) : "";
  return {code, file_ + at + ": " + path_of(key) + ": " + what};
}

const toml::node* ProfileTable::find(const char* key) {
  known_.insert(key);
  return table_->get(key);
}

Result<std::optional<double>> ProfileTable::number(const char* key, double least, double most) {
  const toml::node* node = find(key);
  if (!node) return std::optional<double>();
  const auto value = number_of(*node);
  if (!value) return wrong(key, "not a number; give " + range(least, most));
  if (!(*value >= least && *value <= most)) {
    return wrong(key, plain(*value) + " is out of range; give " + range(least, most));
  }
  return value;
}

Result<std::optional<std::string>> ProfileTable::text(const char* key) {
  const toml::node* node = find(key);
  if (!node) return std::optional<std::string>();
  if (const auto* value = node->as_string()) return std::optional<std::string>(value->get());
  return wrong(key, "not a text; write it in quotes");
}

Result<std::optional<bool>> ProfileTable::flag(const char* key) {
  const toml::node* node = find(key);
  if (!node) return std::optional<bool>();
  if (const auto* value = node->as_boolean()) return std::optional<bool>(value->get());
  return wrong(key, "give true or false");
}

Result<std::string> ProfileTable::one_of(const char* key,
                                         std::initializer_list<const char*> allowed) {
  std::string names;
  for (const char* name : allowed) names += (names.empty() ? "" : ", ") + std::string(name);
  const toml::node* node = find(key);
  if (!node) return wrong(key, "is missing; give one of " + names);
  const auto* value = node->as_string();
  for (const char* name : allowed) {
    if (value && value->get() == name) return std::string(name);
  }
  return wrong(key, (value ? "'" + value->get() + "' is unknown" : std::string("not a text")) +
                        "; give one of " + names);
}

Result<void> ProfileTable::required_ms(const char* key, Duration& out) {
  const auto value = number(key, 0, 60'000);
  if (!value) return value.error();
  if (!*value) return wrong(key, "is missing; give milliseconds");
  out = milliseconds_of(**value);
  return boost::system::in_place_value;
}

Result<ProfileTable> ProfileTable::table(const char* key) {
  const toml::node* node = find(key);
  if (node && node->is_table()) return ProfileTable(*node->as_table(), file_, path_of(key));
  return wrong(key, "not a table; see docs/networks.md");
}

Result<std::vector<double>> ProfileTable::numbers(const char* key, double least, double most,
                                                  std::size_t count_max) {
  const toml::node* node = find(key);
  const auto* array = node ? node->as_array() : nullptr;
  if (!array || array->size() > count_max) {
    return wrong(key, "give a list of " + std::to_string(count_max) + " numbers at most");
  }
  std::vector<double> values;
  for (const toml::node& element : *array) {
    const auto value = number_of(element);
    if (!value || !(*value >= least && *value <= most)) {
      return wrong(key, "each element is " + range(least, most));
    }
    values.push_back(*value);
  }
  return values;
}

Result<std::vector<std::pair<double, double>>> ProfileTable::pairs(const char* key,
                                                                   std::size_t count_max) {
  const toml::node* node = find(key);
  const auto* array = node ? node->as_array() : nullptr;
  if (!array || array->size() > count_max) {
    return wrong(key, "give a list of " + std::to_string(count_max) + " pairs at most");
  }
  std::vector<std::pair<double, double>> values;
  for (const toml::node& element : *array) {
    const auto* pair = element.as_array();
    const auto first = pair && pair->size() == 2 ? number_of(*pair->get(0)) : std::nullopt;
    const auto second = pair && pair->size() == 2 ? number_of(*pair->get(1)) : std::nullopt;
    if (!first || !second) return wrong(key, "each element is a pair of numbers, [share, ms]");
    values.emplace_back(*first, *second);
  }
  return values;
}

Result<std::vector<ProfileTable>> ProfileTable::tables(const char* key, std::size_t count_max) {
  std::vector<ProfileTable> out;
  const toml::node* node = find(key);
  if (!node) return out;
  const auto* array = node->as_array();
  if (!array || array->size() > count_max) {
    return wrong(
        key, "write [[" + std::string(key) + "]], " + std::to_string(count_max) + " times at most");
  }
  for (const toml::node& element : *array) {
    if (!element.is_table()) return wrong(key, "write [[" + std::string(key) + "]]");
    out.emplace_back(*element.as_table(), file_, path_of(key));
  }
  return out;
}

Result<void> ProfileTable::nothing_else() const {
  for (const auto& [key, node] : *table_) {
    const std::string name(key.str());
    if (known_.contains(name)) continue;
    std::string allowed;
    for (const std::string& other : known_) allowed += (allowed.empty() ? "" : ", ") + other;
    return wrong(name.c_str(), "unknown key; allowed here: " + allowed);
  }
  return boost::system::in_place_value;
}

}  // namespace edgedraft::netsim
