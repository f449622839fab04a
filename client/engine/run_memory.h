#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/control/run_control.h"
#include "shared/base/error.h"

namespace edgedraft {

// What runs have taught about servers, in a JSON file for the next program, so that its first
// answer begins as the last one ended. A file that is damaged, or holds what cannot have been
// measured, counts as empty; one that cannot be written is done without.
class RunMemory {
 public:
  // More servers than anybody uses; the oldest go first.
  static constexpr std::size_t kEntriesMax = 64;

  // What was learned belongs to a server, as it is named, and a drafter, by its fingerprint and the
  // kinds that draft.
  struct Key {
    std::string server;
    std::string drafter;

    bool operator==(const Key&) const = default;
  };

  explicit RunMemory(std::filesystem::path file);
  // Where it belongs: servers.json in cache_directory().
  static std::filesystem::path default_file();

  // What the server and the way to it are like is what was seen last, whatever drafted then; what
  // the last run did not see is as the one before saw it.
  std::optional<RunKnowledge> find(const Key& key) const;
  // Keeps it, here and in the file. Each time a tenth of what is known of the server's other
  // drafters is forgotten: how good they are depends on texts that nobody remembers.
  // Errors    io: only here
  Result<void> put(const Key& key, const RunKnowledge& knowledge);

 private:
  std::filesystem::path file_;
  std::vector<std::pair<Key, RunKnowledge>> entries_;  // oldest first
};

}  // namespace edgedraft
