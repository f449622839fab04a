#include "client/serve/page/conversation_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

constexpr const char* kId = "0123456789abcdef";

ConversationStore::Conversation conversation(const std::string& id, const std::string& text,
                                             std::int64_t updated, bool is_private = false) {
  return {.entry = {.id = id,
                    .title = "title of " + text,
                    .updated_unix_ms = updated,
                    .is_private = is_private},
          .document = "{\"text\":\"" + text + "\"}"};
}

class ConversationStoreTest : public ::testing::Test {
 protected:
  std::string bytes() const { return test::file_text(file_); }

  test::TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "deeper" / "conversations.db";
};

TEST_F(ConversationStoreTest, KeepsConversationsAcrossRuns) {
  {
    const auto store = ConversationStore::open(file_).value();
    store->put(conversation(kId, "one", 5));
    store->put(conversation("fedcba9876543210", "two", 9));
    store->put(conversation(kId, "one again", 7));
    EXPECT_EQ(store->list()[0].id, "fedcba9876543210") << "newest first";
  }
  const auto store = ConversationStore::open(file_).value();
  ASSERT_EQ(store->list().size(), 2u);
  EXPECT_EQ(store->list()[1].title, "title of one again");
  EXPECT_EQ(store->find(kId), "{\"text\":\"one again\"}");
  EXPECT_EQ(store->find("0000000000000000"), std::nullopt);
  const auto permissions = std::filesystem::status(file_).permissions();
  EXPECT_EQ(permissions & (std::filesystem::perms::group_all | std::filesystem::perms::others_all),
            std::filesystem::perms::none);
}

TEST_F(ConversationStoreTest, ErasesDeletedAndPrivateTextFromFile) {
  const auto store = ConversationStore::open(file_).value();
  store->put(conversation(kId, "canary-one", 1));
  EXPECT_NE(bytes().find("canary-one"), std::string::npos);
  EXPECT_TRUE(store->remove(kId));
  EXPECT_FALSE(store->remove(kId));
  EXPECT_EQ(bytes().find("canary-one"), std::string::npos);

  store->put(conversation(kId, "canary-two", 1));
  // The conversation became private, so it leaves the disk.
  store->put(conversation(kId, "canary-two and more", 2, /*is_private=*/true));
  EXPECT_EQ(bytes().find("canary-two"), std::string::npos);
  EXPECT_EQ(store->find(kId), "{\"text\":\"canary-two and more\"}");
  ASSERT_EQ(store->list().size(), 1u);
  EXPECT_TRUE(store->list()[0].is_private);
}

// Limits the size of any file that this process writes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uintmax_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(ConversationStoreTest, RemovesPrivateTextIfJournalCannotBeWritten) {
  const auto store = ConversationStore::open(file_).value();
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "canary-one ";
  for (const bool is_private : {true, false}) {
    store->put(conversation(kId, text, 1));
    {
      // A journal of all pages is larger than the pages.
      const FileSizeLimit limit(std::filesystem::file_size(file_));
      if (is_private) {
        EXPECT_TRUE(store->put(conversation(kId, text, 2, /*is_private=*/true)));
      } else {
        EXPECT_TRUE(store->remove(kId));
      }
    }
    EXPECT_EQ(bytes().find("canary-one"), std::string::npos);
    EXPECT_EQ(store->list().size(), is_private ? 1u : 0u);
  }
}

TEST_F(ConversationStoreTest, ReportsPrivateTextThatStaysOnDisk) {
  const auto store = ConversationStore::open(file_).value();
  store->put(conversation(kId, "one", 1));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  try {
    store->put(conversation(kId, "two", 2, /*is_private=*/true));
    ADD_FAILURE() << "put() succeeded although the file is locked";
  } catch (const Failure& failure) {
    EXPECT_TRUE(failure.error().message.starts_with("this conversation has become private"));
  }
  sqlite3_close(other);
  ASSERT_EQ(store->list().size(), 1u) << "listed once, although in memory and on disk";
  EXPECT_TRUE(store->list()[0].is_private);
  EXPECT_EQ(store->find(kId), "{\"text\":\"two\"}");
}

TEST_F(ConversationStoreTest, BoundsMemoryOfPrivateConversations) {
  const auto store = ConversationStore::open(file_).value();
  const std::string text(15u << 20, 'x');
  std::size_t kept = 0;
  for (int i = 10; i < 20; ++i) {
    const std::string id = "0123456789abcd" + std::to_string(i);
    ConversationStore::Conversation one = conversation(id, "", i, /*is_private=*/true);
    one.document = text;
    kept += store->put(one) ? 1 : 0;
  }
  EXPECT_EQ(store->list().size(), kept);
  EXPECT_GE(kept, 3u);
  EXPECT_LE(kept * text.size(), 64u << 20);
  EXPECT_TRUE(store->remove("0123456789abcd10"));
  EXPECT_TRUE(store->put(conversation("0123456789abcd30", "short", 30, /*is_private=*/true)));
}

TEST_F(ConversationStoreTest, KeepsPreviousVersionIfWriteFails) {
  const auto store = ConversationStore::open(file_).value();
  store->put(conversation(kId, "one", 1, /*is_private=*/true));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_THROW(store->put(conversation(kId, "two", 2)), Failure);
  sqlite3_close(other);
  EXPECT_EQ(store->find(kId), "{\"text\":\"one\"}");
}

TEST_F(ConversationStoreTest, RefusesAndPreservesForeignFile) {
  std::filesystem::create_directories(file_.parent_path());
  std::ofstream(file_) << "not a database, and longer than the header that identifies one";
  const std::string before = bytes();
  const auto opened = ConversationStore::open(file_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(file_.string()), std::string::npos);
  EXPECT_EQ(bytes(), before);
  EXPECT_FALSE(ConversationStore::open(folder_.path()));
}

TEST_F(ConversationStoreTest, KeepsConversationsInMemoryWithoutFile) {
  const auto store = ConversationStore::open({}).value();
  store->put(conversation(kId, "one", 5));
  EXPECT_EQ(store->list().size(), 1u);
}

TEST_F(ConversationStoreTest, AcceptsIdsOfLettersDigitsAndHyphens) {
  EXPECT_TRUE(ConversationStore::is_id("5f0c2f7e-8a64-4b61-9d3e-0d9a4f2d9b11"));
  for (const char* const text : {"", "short", "0123456789abcde;", "0123456789abcde/../../etc"}) {
    EXPECT_FALSE(ConversationStore::is_id(text)) << text;
  }
}

}  // namespace
}  // namespace edgedraft::client
