#include <gtest/gtest.h>
#include <openssl/rand.h>

#include "tests/server/run_rig.h"

namespace edgedraft::server {
namespace {

// OpenSSL deprecates this way to replace the random generator.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
// Disables the system's random generator during its lifetime.
class NoRandomness {
 public:
  NoRandomness() {
    static RAND_METHOD none{};
    none.bytes = [](unsigned char*, int) { return 0; };
    RAND_set_rand_method(&none);
  }
  ~NoRandomness() { RAND_set_rand_method(nullptr); }
  NoRandomness(const NoRandomness&) = delete;
  NoRandomness& operator=(const NoRandomness&) = delete;
};
#pragma GCC diagnostic pop

// If a client's id is taken it gets another one. Without randomness the request is refused; the
// compute thread and all other clients continue.
TEST_F(RunTest, RefusesDuplicateSessionIdWithoutRandomness) {
  HintingClient& client = start_run(prompt_);
  loop_->step();
  // These connections' sessions have the same id.
  RawClient other(
      *loop_, {.id = client.raw().client().connection_id + (1u << 16), .context_count = kContext},
      [this] { return now_; });
  ASSERT_EQ(other.client().session, client.raw().client().session);
  {
    const NoRandomness none;
    ASSERT_THROW(random_session_id(), Failure);
    ASSERT_TRUE(other.send(wire::Prefill{.tokens = prompt_}));
  }
  ASSERT_EQ(other.refusal_count, 1u);
  EXPECT_EQ(std::get<wire::ErrorReport>(other.heard.at(0)).code, Errc::refused);
  ASSERT_TRUE(other.send(wire::Prefill{.tokens = prompt_}));
  expect_whole(client, expected_);
  EXPECT_EQ(other.verdict_count, 1u);
}

}  // namespace
}  // namespace edgedraft::server
