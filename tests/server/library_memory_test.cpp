// Libraries whose allocations fail, and how often they are called.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

#include "shared/protocol/activation_codec.h"
#include "tests/server/run_rig.h"
#include "tests/support/heard_replies.h"

namespace edgedraft::server {
namespace {

std::atomic<bool> library_memory_is_out = false;
std::atomic<std::uint32_t> digests_begun = 0;

}  // namespace
}  // namespace edgedraft::server

// The linker calls these instead of the libraries (CMakeLists.txt).
extern "C" {

int __real_deflateInit2_(z_streamp stream, int level, int method, int window_bits, int memory_level,
                         int strategy, const char* version, int stream_bytes);
int __wrap_deflateInit2_(z_streamp stream, int level, int method, int window_bits, int memory_level,
                         int strategy, const char* version, int stream_bytes) {
  if (edgedraft::server::library_memory_is_out) return Z_MEM_ERROR;
  return __real_deflateInit2_(stream, level, method, window_bits, memory_level, strategy, version,
                              stream_bytes);
}

EVP_MD_CTX* __real_EVP_MD_CTX_new();
EVP_MD_CTX* __wrap_EVP_MD_CTX_new() {
  ++edgedraft::server::digests_begun;
  return edgedraft::server::library_memory_is_out ? nullptr : __real_EVP_MD_CTX_new();
}

}  // extern "C"

namespace edgedraft::server {
namespace {

// Makes library allocations fail during its lifetime.
class NoLibraryMemory {
 public:
  NoLibraryMemory() { library_memory_is_out = true; }
  ~NoLibraryMemory() { library_memory_is_out = false; }
  NoLibraryMemory(const NoLibraryMemory&) = delete;
  NoLibraryMemory& operator=(const NoLibraryMemory&) = delete;
};

class LibraryMemoryTest : public RunTest {
 protected:
  // The session of a disconnected client. Others request it on their own connections.
  wire::SessionId left_session() {
    HintingClient& client = start_run(prompt_, {});
    run_until_idle();
    client.raw().leave();
    return client.raw().client().session;
  }
  Client asking() const {
    return {
        .connection_id = 99, .reply = heard_, .session = {}, .identity = "someone", .tap = nullptr};
  }
  wire::Resume resume(const wire::SessionId& session, const Digest& hash) {
    return {.round = ++round_,
            .session = session,
            .verified_length = static_cast<std::uint32_t>(prompt_.size()),
            .verified_hash = hash};
  }

  const std::shared_ptr<testing::HeardReplies> heard_ = std::make_shared<testing::HeardReplies>();
  std::uint32_t round_ = 0;
};

TEST_F(LibraryMemoryTest, FailedCompressionThrowsBadAlloc) {
  const Bytes rows(1000);
  const auto compressed = [&] {
    return compress_activations(1, 0, 1, rows, wire::Codec::gzip).data.size();
  };
  {
    const NoLibraryMemory none;
    EXPECT_THROW(compressed(), std::bad_alloc);
  }
  EXPECT_LT(compressed(), rows.size());
}

TEST_F(LibraryMemoryTest, FailedDigestCostsOnlyTheRequest) {
  const wire::SessionId session = left_session();
  const Digest hash = token_hash(prompt_);
  {
    const NoLibraryMemory none;
    EXPECT_THROW(token_hash(prompt_), std::bad_alloc);
    loop_->begin(asking(), resume(session, hash), now_);
  }
  ASSERT_EQ(heard_->refusals.size(), 1u);
  EXPECT_EQ(heard_->refusals[0].code, Errc::refused);
  loop_->begin(asking(), resume(session, hash), now_);
  run_until_idle();
  EXPECT_EQ(heard_->verdicts.size(), 1u);
}

// All sessions share the thread that hashes.
TEST_F(LibraryMemoryTest, HashesOnceForRepeatedWrongResumes) {
  const wire::SessionId session = left_session();
  const Digest hash = token_hash(prompt_);
  const std::uint32_t before = digests_begun;
  for (int i = 0; i < 10; ++i) loop_->begin(asking(), resume(session, Digest{}), now_);
  EXPECT_EQ(heard_->refusals.size(), 10u);
  EXPECT_EQ(digests_begun - before, 1u);
  loop_->begin(asking(), resume(session, hash), now_);
  run_until_idle();
  EXPECT_EQ(heard_->verdicts.size(), 1u);
}

}  // namespace
}  // namespace edgedraft::server
