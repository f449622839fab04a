#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft {

// The page's conversations. Those with private text are kept in memory and end with the program;
// what is deleted is overwritten in the file. A crash in the midst of a change damages nothing.
//
// Threads   one
class ConversationStore {
 public:
  // The file is made if it is not there, for its owner alone; empty: everything stays in memory.
  //
  // Errors    io naming the file, which is none of this program's, damaged, or of a later version
  static Result<std::unique_ptr<ConversationStore>> open(const std::filesystem::path& file);

  struct Entry {
    std::string id;
    std::string title;
    std::int64_t updated_unix_ms = 0;
    bool is_private = false;
  };
  struct Conversation {
    Entry entry;
    std::string document;  // JSON that the page made
  };

  // The newest first. All throw Failure (io) where the disk fails.
  std::vector<Entry> list() const;
  std::optional<std::string> find(const std::string& id) const;
  // Replaces the one with that id. False if there is no room: on the disk, or, for a private one,
  // in the 64 MiB of memory that all of them share. Nothing has changed then.
  bool put(const Conversation& conversation);
  // False if there is none.
  bool remove(const std::string& id);

  // Whether it may be an id: 16 to 64 letters, digits and '-'.
  static bool is_id(std::string_view text);

 private:
  struct Closing {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  using Database = std::unique_ptr<sqlite3, Closing>;

  static Result<Database> open_database(const std::string& name);
  ConversationStore(Database kept, Database passing)
      : kept_(std::move(kept)), passing_(std::move(passing)) {}

  Database kept_;
  Database passing_;  // in memory
};

}  // namespace edgedraft
