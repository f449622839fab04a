#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/control/run_control.h"
#include "shared/base/error.h"

namespace edgedraft::client {

// Measurements of servers, kept in a JSON file so that the next program's first answer starts with
// them. A file that is damaged or holds impossible values counts as empty; a file that cannot be
// written is ignored.
class RunMemory {
 public:
  // Bounds the file; beyond it, the oldest entries are dropped.
  static constexpr std::size_t kEntriesMax = 64;

  // Measurements belong to a server, by name, and a drafter, by fingerprint and kinds.
  struct Key {
    std::string server;
    std::string drafter;

    bool operator==(const Key&) const = default;
  };

  explicit RunMemory(std::filesystem::path file);
  // servers.json in cache_directory().
  static std::filesystem::path default_file();

  // Server and link values are the latest seen with any drafter; values that the last run did not
  // measure come from the run before.
  std::optional<RunKnowledge> find(const Key& key) const;
  // Stores the measurements, in memory and in the file. Each call forgets a tenth of the evidence
  // on the server's other drafters, because their quality depends on texts that are not stored.
  // Errors    io: stored in memory only
  Result<void> put(const Key& key, const RunKnowledge& knowledge);

 private:
  std::filesystem::path file_;
  std::vector<std::pair<Key, RunKnowledge>> entries_;  // oldest first
};

}  // namespace edgedraft::client
