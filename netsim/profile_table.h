#pragma once

#include <toml++/toml.h>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

Duration milliseconds_of(double ms);
Duration seconds_of(double s);
// A number as one would write it.
std::string plain(double value);

// A TOML table that is read key by key: what is asked for is checked, what nobody asked for is a
// mistake. Every error names file, line and key.
class ProfileTable {
 public:
  // `where` stands before keys in messages: "up" for "up.loss". The table must outlive this.
  ProfileTable(const toml::table& table, std::string file, std::string where);

  bool has(const char* key) { return find(key) != nullptr; }

  // Each gives nullopt where the key is missing and an error where it holds something else.
  Result<std::optional<double>> number(const char* key, double least, double most);
  Result<std::optional<std::string>> text(const char* key);
  Result<std::optional<bool>> flag(const char* key);

  // These want the key.
  Result<std::string> one_of(const char* key, std::initializer_list<const char*> allowed);
  Result<void> required_ms(const char* key, Duration& out);
  Result<ProfileTable> table(const char* key);
  Result<std::vector<double>> numbers(const char* key, double least, double most,
                                      std::size_t count_max);
  Result<std::vector<std::pair<double, double>>> pairs(const char* key, std::size_t count_max);

  // [[key]]: none where it is missing.
  Result<std::vector<ProfileTable>> tables(const char* key, std::size_t count_max);

  // An error where the table has a key that was never asked for.
  Result<void> nothing_else() const;

  Error wrong(const char* key, const std::string& what, Errc code = Errc::usage) const;

 private:
  const toml::node* find(const char* key);
  std::string path_of(std::string_view key) const;

  const toml::table* table_;
  std::string file_;
  std::string where_;
  std::set<std::string> known_;
};

}  // namespace edgedraft::netsim
