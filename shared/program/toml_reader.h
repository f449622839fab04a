#pragma once

#include <toml++/toml.h>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft {

// toml::parse for untrusted text. Refuses non-ASCII characters outside quotes and comments, for
// which the library has undefined behaviour (toml++ 3.3, is_non_ascii_horizontal_whitespace).
// Errors    usage naming the file and, after `line_mark`, the line
Result<toml::table> parse_toml(std::string_view text, const std::filesystem::path& file,
                               const std::string& line_mark = ", line ");

// At most twelve digits.
std::string number_text(double value);

// The file being read, and its first error.
struct TomlFile {
  std::string name;
  std::string line_mark = ", line ";  // between file name and line number
  std::optional<Error> error{};
};

// Reads a TOML table key by key. Values of a wrong type, values out of range and unknown keys are
// errors that name file, line, table and key. Reading continues after an error; the file keeps the
// first one.
class TomlReader {
 public:
  static constexpr std::size_t kListMax = 65536;  // bounds memory; longer lists are refused

  // `path`: names of the table and its parents, "up.delay". Table and file outlive the reader.
  TomlReader(const toml::table& table, TomlFile& file, std::string path = {})
      : table_(table), file_(file), path_(std::move(path)) {}

  bool has(const std::string& key) { return find(key) != nullptr; }
  std::vector<std::string> keys() const;

  // Assigns a valid value of the key and returns true. Further arguments: for numbers the minimum
  // and maximum, for pairs their format for messages, for lists the elements' rules.
  template <class Value, class... Range>
  bool read(const std::string& key, Value& out, Range... range) {
    const toml::node* const node = find(key);
    return node != nullptr && take(key, *node, out, range...);
  }

  // A text among `allowed`; empty after an error, including a missing key.
  std::string one_of(const std::string& key, std::initializer_list<const char*> allowed);
  void require(const std::string& key, const std::string& what);

  // Calls `use` with the table, or each table of a list, at that key, if any. Keys not read by
  // `use` are refused.
  using Use = std::function<void(TomlReader&)>;
  void table(const std::string& key, const std::string& hint, const Use& use);
  void tables(const std::string& key, std::size_t count_max, const Use& use);
  // The list at that key; null if missing or invalid.
  const toml::array* list(const std::string& key);

  void refuse_unknown_keys();

  // Keep the first error: at a key, at the table, or as given.
  void wrong(const std::string& key, const std::string& what, Errc code = Errc::usage);
  void fail(const std::string& what);
  void fail(Error error);

 private:
  const toml::node* find(const std::string& key);
  std::string path_of(const std::string& key) const;
  void use_table(const std::string& key, const toml::table& table, const Use& use);
  std::optional<double> number(const std::string& key, const toml::node& node, bool whole,
                               double least, double most);

  bool take(const std::string& key, const toml::node& node, std::string& out);
  bool take(const std::string& key, const toml::node& node, bool& out);
  // A date-time, or a date for its first second. Without an offset it is in UTC.
  bool take(const std::string& key, const toml::node& node, std::chrono::sys_seconds& out);
  bool take(const std::string& key, const toml::node& node, std::pair<double, double>& out,
            const char* form);
  template <class Number>
  requires std::is_arithmetic_v<Number>
  bool take(const std::string& key, const toml::node& node, Number& out, double least,
            double most) {
    const auto value = number(key, node, std::is_integral_v<Number>, least, most);
    if (value) out = static_cast<Number>(*value);
    return value.has_value();
  }
  template <class Value, class... Range>
  bool take(const std::string& key, const toml::node& node, std::optional<Value>& out,
            Range... range) {
    Value value{};
    if (!take(key, node, value, range...)) return false;
    out = std::move(value);
    return true;
  }
  template <class Value, class... Range>
  bool take(const std::string& key, const toml::node&, std::vector<Value>& out, Range... range) {
    const toml::array* const elements = list(key);
    if (elements == nullptr) return false;
    std::vector<Value> values(elements->size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!take(key, *elements->get(i), values[i], range...)) return false;
    }
    out = std::move(values);
    return true;
  }

  const toml::table& table_;
  TomlFile& file_;
  std::string path_;
  std::set<std::string> known_;
};

}  // namespace edgedraft
