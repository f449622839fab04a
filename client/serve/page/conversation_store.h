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

namespace edgedraft::client {

// The page's conversations. Private ones are kept only in memory and end with the program. Deleted
// ones are overwritten in the file. A crash during a change leaves the file intact.
//
// Threads   one
class ConversationStore {
 public:
  // Opens the file. A missing one is created, readable by its owner only. An empty path keeps
  // everything in memory.
  //
  // Errors    io naming the file: of another program, damaged, or of a later version
  static Result<std::unique_ptr<ConversationStore>> open(const std::filesystem::path& file);

  struct Entry {
    std::string id;
    std::string title;
    std::int64_t updated_unix_ms = 0;
    bool is_private = false;
  };
  struct Conversation {
    Entry entry;
    std::string document;  // JSON from the page
  };

  // Newest first. All functions throw Failure (io) on disk errors.
  std::vector<Entry> list() const;
  std::optional<std::string> find(const std::string& id) const;
  // Replaces the conversation with that id. Returns false, without a change, if the disk is full
  // or, for a private one, the 64 MiB of memory shared by private ones.
  bool put(const Conversation& conversation);
  // Returns false if there is none.
  bool remove(const std::string& id);

  // True for 16 to 64 letters, digits and '-'.
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

}  // namespace edgedraft::client
