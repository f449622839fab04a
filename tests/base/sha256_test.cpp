#include "shared/base/sha256.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

// The test vectors of FIPS 180-2.
TEST(Sha256Test, MatchesFipsVectors) {
  EXPECT_EQ(to_hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(as_byte_view("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, DigestIsIndependentOfChunking) {
  const std::string text(1000, 'x');
  for (const std::size_t cut : {0u, 1u, 63u, 64u, 65u, 999u, 1000u}) {
    const Digest digest =
        Sha256().update(text.substr(0, cut)).update(std::string_view(text).substr(cut)).finish();
    EXPECT_EQ(digest, sha256(as_byte_view(text))) << cut;
  }
}

}  // namespace
}  // namespace edgedraft
