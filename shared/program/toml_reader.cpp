#include "shared/program/toml_reader.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace edgedraft {
namespace {

// Skips TOML's quoted strings and comments.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Line of the first non-ASCII character outside quotes and comments.
  std::optional<toml::source_index> find_bare() {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    // True where a key or value may start. Quotes elsewhere start no string, and the library
    // continues after them.
    bool may_begin = true;
    bool is_value = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) >= 0x80) return line();
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if ((c == '"' || c == '\'') && may_begin) {
        skip_string(c);
        may_begin = false;
        continue;
      }
      ++at_;
      if (c == '\n' || c == ',' || (c == '{' && may_begin)) {
        may_begin = true;
        is_value = false;
      } else if (c == '=') {
        may_begin = !is_value;
        is_value = true;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != '[') {
        may_begin = false;
      }
    }
    return std::nullopt;
  }

 private:
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool lines = text_.substr(at_).starts_with(three);
    at_ += lines ? 3 : 1;
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (quote == '"' && rest.front() == '\\') {
        at_ += 2;
      } else if (lines && rest.starts_with(three)) {
        at_ += 3;
        // Up to two quotes may precede the closing ones.
        for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
        return;
      } else if (!lines && (rest.front() == quote || rest.front() == '\n')) {
        ++at_;
        return;
      } else {
        ++at_;
      }
    }
  }

  toml::source_index line() const {
    return static_cast<toml::source_index>(1 + std::ranges::count(text_.substr(0, at_), '\n'));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <class Names>
std::string joined(const Names& names) {
  std::string text;
  for (const auto& name : names) (text += text.empty() ? "" : ", ") += name;
  return text;
}

std::optional<double> number_of(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  if (const auto* real = node.as_floating_point()) return real->get();
  return std::nullopt;
}

}  // namespace

Result<toml::table> parse_toml(std::string_view text, const std::filesystem::path& file,
                               const std::string& line_mark) {
  const auto wrong = [&](toml::source_index line, std::string_view what) {
    return usage_error(file.string() + line_mark + std::to_string(line) + ": " + std::string(what));
  };
  if (const auto line = Scanner(text).find_bare()) {
    return wrong(*line, "letters outside ASCII are allowed only in quotes and comments");
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    return wrong(e.source().begin.line, e.description());
  }
}

std::string number_text(double value) {
  std::ostringstream out;
  out.precision(12);
  out << value;
  return out.str();
}

std::vector<std::string> TomlReader::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, node] : table_) keys.emplace_back(key.str());
  return keys;
}

const toml::node* TomlReader::find(const std::string& key) {
  known_.insert(key);
  return table_.get(key);
}

std::string TomlReader::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + '.' + key;
}

void TomlReader::wrong(const std::string& key, const std::string& what, Errc code) {
  const toml::node* const node = table_.get(key);
  const auto line = (node ? node : &table_)->source().begin.line;
  // A table missing from the file has no line.
  const std::string at = line > 0 ? file_.line_mark + std::to_string(line) : "";
  fail(Error{code, file_.name + at + ": " + path_of(key) + ": " + what});
}

void TomlReader::fail(const std::string& what) {
  const std::string at = path_.empty() ? ""
                                       : '[' + path_ + "] in line " +
                                             std::to_string(table_.source().begin.line) + ": ";
  fail(usage_error(file_.name + ": " + at + what));
}

void TomlReader::fail(Error error) {
  if (!file_.error) file_.error = std::move(error);
}

std::string TomlReader::one_of(const std::string& key, std::initializer_list<const char*> allowed) {
  require(key, "one of " + joined(allowed));
  std::string text;
  if (!read(key, text)) return {};
  for (const char* name : allowed) {
    if (text == name) return text;
  }
  wrong(key, '\'' + text + "' is unknown; give one of " + joined(allowed));
  return {};
}

void TomlReader::require(const std::string& key, const std::string& what) {
  if (!has(key)) wrong(key, "is missing; give " + what);
}

void TomlReader::use_table(const std::string& key, const toml::table& table, const Use& use) {
  TomlReader reader(table, file_, path_of(key));
  use(reader);
  reader.refuse_unknown_keys();
}

void TomlReader::table(const std::string& key, const std::string& hint, const Use& use) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  if (!node->is_table()) return wrong(key, "not a table; " + hint);
  use_table(key, *node->as_table(), use);
}

void TomlReader::tables(const std::string& key, std::size_t count_max, const Use& use) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const toml::array* const tables = node->as_array();
  if (tables == nullptr || tables->size() > count_max) {
    return wrong(key, "write [[" + key + "]], " + std::to_string(count_max) + " times at most");
  }
  for (const toml::node& element : *tables) {
    if (!element.is_table()) return wrong(key, "write [[" + key + "]]");
    use_table(key, *element.as_table(), use);
  }
}

const toml::array* TomlReader::list(const std::string& key) {
  const toml::node* const node = find(key);
  if (node == nullptr) return nullptr;
  const toml::array* const elements = node->as_array();
  if (elements != nullptr && !elements->empty() && elements->size() <= kListMax) return elements;
  wrong(key, "give a list of 1 to " + std::to_string(kListMax) + " values");
  return nullptr;
}

void TomlReader::refuse_unknown_keys() {
  for (const std::string& key : keys()) {
    if (known_.contains(key)) continue;
    return wrong(key, "unknown key; allowed here: " + joined(known_));
  }
}

std::optional<double> TomlReader::number(const std::string& key, const toml::node& node, bool whole,
                                         double least, double most) {
  const std::string kind = whole ? "a whole number" : "a number";
  const std::string range =
      "; give " + kind + " from " + number_text(least) + " to " + number_text(most);
  const auto value = number_of(node);
  if (!value || (whole && *value != std::trunc(*value))) {
    wrong(key, "not " + kind + range);
  } else if (!(*value >= least && *value <= most)) {
    wrong(key, number_text(*value) + " is out of range" + range);
  } else {
    return value;
  }
  return std::nullopt;
}

bool TomlReader::take(const std::string& key, const toml::node& node, std::string& out) {
  if (!node.is_string()) return wrong(key, "not a string; write it in quotes"), false;
  out = node.as_string()->get();
  return true;
}

bool TomlReader::take(const std::string& key, const toml::node& node, bool& out) {
  if (!node.is_boolean()) return wrong(key, "give true or false"), false;
  out = node.as_boolean()->get();
  return true;
}

bool TomlReader::take(const std::string& key, const toml::node& node,
                      std::chrono::sys_seconds& out) {
  using namespace std::chrono;
  toml::date_time given{};
  if (const auto* time = node.as_date_time()) {
    given = time->get();
  } else if (const auto* date = node.as_date()) {
    given.date = date->get();
  } else {
    return wrong(key, "give a date or a date-time, such as 2027-01-31 or 2027-01-31T12:00:00Z"),
           false;
  }
  const year_month_day day{year{given.date.year}, month{given.date.month},
                           std::chrono::day{given.date.day}};
  const minutes offset{given.offset ? given.offset->minutes : 0};
  out = sys_days{day} + hours{given.time.hour} + minutes{given.time.minute} +
        std::chrono::seconds{given.time.second} - offset;
  return true;
}

bool TomlReader::take(const std::string& key, const toml::node& node,
                      std::pair<double, double>& out, const char* form) {
  const toml::array* const pair = node.as_array();
  const bool two = pair != nullptr && pair->size() == 2;
  const auto first = two ? number_of(*pair->get(0)) : std::nullopt;
  const auto second = two ? number_of(*pair->get(1)) : std::nullopt;
  if (!first || !second) return wrong(key, std::string("each element is ") + form), false;
  out = {*first, *second};
  return true;
}

}  // namespace edgedraft
