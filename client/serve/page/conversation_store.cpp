#include "client/serve/page/conversation_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "shared/base/ascii.h"

namespace edgedraft::client {
namespace {

// "edge", and the version of the table below.
constexpr std::int64_t kApplication = 0x65646765;
constexpr std::int64_t kTableVersion = 1;
// Bounds the conversations in memory; further ones are refused.
constexpr const char* kMemoryPagesMax = "PRAGMA max_page_count = 16384";  // pages of 4 KiB

Error failure_of(sqlite3* database, const std::string& what) {
  return {Errc::io, what + ": " + sqlite3_errmsg(database)};
}

// A statement; parameters are numbered from 1.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    if (sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK) fail();
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int index, const std::string& text) {
    if (sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_STATIC,
                            SQLITE_UTF8) != SQLITE_OK) {
      fail();
    }
    return *this;
  }
  Statement& bind(int index, std::int64_t number) {
    if (sqlite3_bind_int64(statement_, index, number) != SQLITE_OK) fail();
    return *this;
  }
  // Returns true if there is a row.
  bool step() {
    const int status = sqlite3_step(statement_);
    if (status != SQLITE_ROW && status != SQLITE_DONE) fail();
    return status == SQLITE_ROW;
  }
  std::string text(int column) const {
    const auto* const bytes =
        reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr
               ? std::string()
               : std::string(bytes,
                             static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }
  std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }

 private:
  [[noreturn]] void fail() const { throw Failure(failure_of(database_, "conversation file")); }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

std::int64_t pragma(sqlite3* database, const char* sql) {
  Statement statement(database, sql);
  return statement.step() ? statement.number(0) : 0;
}

void run(sqlite3* database, const char* sql) {
  Statement(database, sql).step();
}

bool erase(sqlite3* database, const std::string& id) {
  Statement(database, "DELETE FROM conversations WHERE id = ?1").bind(1, id).step();
  return sqlite3_changes(database) > 0;
}

// Also works on a full disk: without space for a journal, the journal is held in memory.
bool erase_from_disk(sqlite3* database, const std::string& id) {
  try {
    return erase(database, id);
  } catch (const Failure&) {
    if (sqlite3_errcode(database) == SQLITE_BUSY) throw;
  }
  const auto journal_in = [database](const std::string& mode) {
    run(database, ("PRAGMA journal_mode = " + mode).c_str());
  };
  journal_in("MEMORY");
  try {
    const bool erased = erase(database, id);
    journal_in("DELETE");
    return erased;
  } catch (const Failure&) {
    journal_in("DELETE");
    throw;
  }
}

}  // namespace

Result<ConversationStore::Database> ConversationStore::open_database(const std::string& name) {
  sqlite3* opened = nullptr;
  const int status = sqlite3_open(name.c_str(), &opened);
  Database database(opened);
  if (status != SQLITE_OK) return failure_of(opened, name);
  sqlite3_busy_timeout(opened, 2000);
  try {
    // Overwrites deleted data. Only a deleted journal leaves blocks on the disk; without journals,
    // a crash could damage the file.
    run(opened, "PRAGMA secure_delete = ON");
    run(opened, "PRAGMA journal_mode = DELETE");
    const std::int64_t application = pragma(opened, "PRAGMA application_id");
    const std::int64_t version = pragma(opened, "PRAGMA user_version");
    const bool is_new = application == 0 && version == 0 &&
                        pragma(opened, "SELECT count(*) FROM sqlite_master") == 0;
    if (!is_new && (application != kApplication || version != kTableVersion)) {
      return Error{
          Errc::io,
          name + ": not a conversation file of this version; move it away, or name another file"};
    }
    if (is_new) {
      run(opened,
          "CREATE TABLE conversations (id TEXT PRIMARY KEY, title TEXT NOT NULL, "
          "updated INTEGER NOT NULL, document TEXT NOT NULL) WITHOUT ROWID");
      run(opened, ("PRAGMA application_id = " + std::to_string(kApplication)).c_str());
      run(opened, ("PRAGMA user_version = " + std::to_string(kTableVersion)).c_str());
    }
  } catch (const Failure& failure) {
    return Error{Errc::io, name + ": " + failure.error().message};
  }
  return database;
}

Result<std::unique_ptr<ConversationStore>> ConversationStore::open(
    const std::filesystem::path& file) {
  auto passing = open_database(":memory:");
  if (!passing) return passing.error();
  run(passing->get(), kMemoryPagesMax);
  if (!file.empty()) {
    std::error_code ignored;
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), ignored);
    // Readable by its owner only; SQLite gives its journals the same permissions.
    const int made = ::open(file.c_str(), O_CREAT | O_CLOEXEC | O_RDWR, S_IRUSR | S_IWUSR);
    if (made < 0) return Error{Errc::io, file.string() + ": " + std::strerror(errno)};
    ::close(made);
  }
  auto kept = open_database(file.empty() ? ":memory:" : file.string());
  if (!kept) return kept.error();
  if (file.empty()) run(kept->get(), kMemoryPagesMax);
  return std::unique_ptr<ConversationStore>(
      new ConversationStore(*std::move(kept), *std::move(passing)));
}

std::vector<ConversationStore::Entry> ConversationStore::list() const {
  std::vector<Entry> entries;
  for (const Database* database : {&passing_, &kept_}) {
    Statement rows(database->get(), "SELECT id, title, updated FROM conversations");
    while (rows.step()) {
      // A conversation that became private during a disk error is both on disk and in memory.
      if (std::ranges::find(entries, rows.text(0), &Entry::id) != entries.end()) continue;
      entries.push_back({.id = rows.text(0),
                         .title = rows.text(1),
                         .updated_unix_ms = rows.number(2),
                         .is_private = database == &passing_});
    }
  }
  std::ranges::stable_sort(entries, std::greater(), &Entry::updated_unix_ms);
  return entries;
}

std::optional<std::string> ConversationStore::find(const std::string& id) const {
  for (const Database* database : {&passing_, &kept_}) {
    Statement row(database->get(), "SELECT document FROM conversations WHERE id = ?1");
    row.bind(1, id);
    if (row.step()) return row.text(0);
  }
  return std::nullopt;
}

bool ConversationStore::put(const Conversation& conversation) {
  const Entry& entry = conversation.entry;
  sqlite3* const to = (entry.is_private ? passing_ : kept_).get();
  try {
    Statement(to, "INSERT OR REPLACE INTO conversations VALUES (?1, ?2, ?3, ?4)")
        .bind(1, entry.id)
        .bind(2, entry.title)
        .bind(3, entry.updated_unix_ms)
        .bind(4, conversation.document)
        .step();
  } catch (const Failure&) {
    if (sqlite3_errcode(to) == SQLITE_FULL) return false;
    throw;
  }
  // Delete the other copy only now, so that a failure above leaves at least one.
  if (!entry.is_private) {
    erase(passing_.get(), entry.id);
    return true;
  }
  try {
    erase_from_disk(kept_.get(), entry.id);
  } catch (const Failure& failure) {
    throw Failure(
        {Errc::io,
         "this conversation has become private, but its earlier text is still on the disk: " +
             failure.error().message});
  }
  return true;
}

bool ConversationStore::remove(const std::string& id) {
  const bool kept = erase_from_disk(kept_.get(), id);
  return erase(passing_.get(), id) || kept;
}

bool ConversationStore::is_id(std::string_view text) {
  const auto is_allowed = [](char c) {
    return is_ascii_digit(c) || is_ascii_letter(c) || c == '-';
  };
  return text.size() >= 16 && text.size() <= 64 && std::ranges::all_of(text, is_allowed);
}

}  // namespace edgedraft::client
