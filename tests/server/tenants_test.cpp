#include "server/program/tenants.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>

#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;

constexpr WallTime kToday = sys_days{2026y / 12 / 1};

std::string hash_of(std::string_view token) {
  return to_hex(sha256(as_byte_view(token)));
}

std::string tenant_text(const std::string& name, const std::string& keys) {
  return "[[tenant]]\nname = '" + name + "'\n" + keys + "\n";
}

Result<Tenants> parsed(const std::string& text) {
  return Tenants::parse(text, "tenants.toml");
}

TEST(TenantsTest, SignsInByTokenOrItsHash) {
  const auto tenants =
      parsed(tenant_text("Büro", "token = 'first'\nsessions = 4\ntokens_per_minute = 600") +
             tenant_text("lab", "token_sha256 = '" + hash_of("second") + "'"))
          .value();
  const Tenant office = tenants.sign_in("first", kToday).value();
  EXPECT_EQ(office.name, "Büro");
  EXPECT_EQ(office.quota.sessions_max, 4u);
  EXPECT_EQ(office.quota.tokens_per_minute, 600u);
  const Tenant lab = tenants.sign_in("second", kToday).value();
  EXPECT_EQ(lab.name, "lab");
  EXPECT_EQ(lab.quota.sessions_max, 0u) << "no limit";
  EXPECT_TRUE(fails_with(tenants.sign_in("third", kToday), Errc::unauthorized, "wrong token"));
  EXPECT_TRUE(fails_with(tenants.sign_in("", kToday), Errc::unauthorized, "wrong token"));
  EXPECT_TRUE(
      fails_with(tenants.sign_in(hash_of("second"), kToday), Errc::unauthorized, "wrong token"))
      << "a hash is not a token";
}

TEST(TenantsTest, RefusesExpiredTenants) {
  const auto tenants =
      parsed(tenant_text("date", "token = 'a'\nexpires = 2026-12-01") +
             tenant_text("local", "token = 'b'\nexpires = 2026-12-01T00:00:01") +
             tenant_text("zone", "token = 'c'\nexpires = 2026-12-01T02:00:00+02:00") +
             tenant_text("far", "token = 'd'\nexpires = 9999-12-31T23:59:59Z"))
          .value();
  EXPECT_TRUE(tenants.sign_in("a", kToday - 1s));
  EXPECT_TRUE(fails_with(tenants.sign_in("a", kToday), Errc::unauthorized,
                         "tenant date expired on 2026-12-01 00:00 UTC"));
  EXPECT_TRUE(fails_with(tenants.find("date", kToday), Errc::unauthorized, "expired"));
  EXPECT_TRUE(tenants.sign_in("b", kToday));
  EXPECT_FALSE(tenants.sign_in("b", kToday + 1s));
  EXPECT_TRUE(tenants.find("zone", kToday - 1s));
  EXPECT_FALSE(tenants.find("zone", kToday));
  EXPECT_TRUE(tenants.sign_in("d", kToday));
}

TEST(TenantsTest, FindsOnlyListedTenants) {
  const auto tenants = parsed(tenant_text("a", "token = 'new'")).value();
  EXPECT_EQ(tenants.find("a", kToday).value().name, "a");
  EXPECT_TRUE(fails_with(tenants.find("b", kToday), Errc::unauthorized, "tenant b is no longer"));
}

TEST(TenantsTest, RefusesWrongFilesWithLineAndKey) {
  const std::string good = tenant_text("a", "token = 'x'");
  const struct {
    std::string text;
    std::string says;
  } cases[] = {
      {"", "lists no tenant"},
      {"# nothing\n", "lists no tenant"},
      {"[[tenant]]\n", "line 1: tenant.name: is missing"},
      {"[tenant]\nname = 'a'\n", "write [[tenant]]"},
      {"tenant = [1]\n", "line 1: tenant: write [[tenant]]"},
      {good + "[[tenants]]\n", "tenants: unknown key"},
      {tenant_text("a", "token = 'x'\nquota = 3"), "line 4: tenant.quota: unknown key"},
      {tenant_text("a", "token = 'x'\ntoken = 'y'"), "line 4"},
      {good + tenant_text("a", "token = 'y'"), "line 5: tenant.name: a is listed twice"},
      {good + tenant_text("b", "token = 'x'"), "line 6: tenant.token: is also another"},
      {good + tenant_text("b", "token_sha256 = '" + hash_of("x") + "'"),
       "line 6: tenant.token_sha256: is also another"},
      {tenant_text("", "token = 'x'"), "tenant.name: expected 1 to 64 bytes"},
      {tenant_text(std::string(65, 'n'), "token = 'x'"), "tenant.name: expected 1 to 64 bytes"},
      {"[[tenant]]\nname = \"a\\u001Bb\"\ntoken = 'x'\n", "line 2: tenant.name: contains"},
      {"[[tenant]]\nname = \"a\\nb\"\ntoken = 'x'\n", "line 2: tenant.name: contains"},
      {"[[tenant]]\nname = 3\ntoken = 'x'\n", "line 2: tenant.name: not a string"},
      {tenant_text("a", ""), "tenant.token_sha256: give either"},
      {tenant_text("a", "token = 'x'\ntoken_sha256 = '" + hash_of("x") + "'"),
       "line 3: tenant.token: give either"},
      {tenant_text("a", "token = ''"), "line 3: tenant.token: is empty"},
      {tenant_text("a", "token = 'ü'"), "line 3: tenant.token: contains characters"},
      {tenant_text("a", "token = '" + std::string(4097, 'x') + "'"), "longer than 4096 bytes"},
      {tenant_text("a", "token_sha256 = ''"), "line 3: tenant.token_sha256: expected 64"},
      {tenant_text("a", "token_sha256 = '" + std::string(63, 'a') + "'"), "expected 64"},
      {tenant_text("a", "token_sha256 = '" + std::string(66, 'a') + "'"), "expected 64"},
      {tenant_text("a", "token_sha256 = '" + std::string(64, 'g') + "'"), "expected 64"},
      {tenant_text("a", "token = 'x'\nexpires = '2026-12-01'"), "line 4: tenant.expires: give a"},
      {tenant_text("a", "token = 'x'\nexpires = 12:00:00"), "line 4: tenant.expires: give a"},
      {tenant_text("a", "token = 'x'\nexpires = 2026-02-30"), "line 4"},
      {tenant_text("a", "token = 'x'\nsessions = 0"), "line 4: tenant.sessions: 0 is out of"},
      {tenant_text("a", "token = 'x'\nsessions = 1.5"), "line 4: tenant.sessions: not a whole"},
      {tenant_text("a", "token = 'x'\ntokens_per_minute = -1"), "line 4: tenant.tokens_per_minute"},
      {tenant_text("a", "token = 'x'\ntokens_per_minute = 1_000_000_001"), "is out of range"},
      {"[[tenant]]\nname = 'a", "line 2"},
      {std::string(100'000, '['), "line 1"},
  };
  for (const auto& [text, says] : cases) {
    const auto tenants = parsed(text);
    EXPECT_TRUE(fails_with(tenants, Errc::usage, says)) << text.substr(0, 200);
    EXPECT_TRUE(fails_with(tenants, Errc::usage, "tenants.toml")) << text.substr(0, 200);
  }
}

TEST(TenantsTest, BoundsNumberOfTenants) {
  std::string text;
  for (std::size_t i = 0; i < Tenants::kCountMax; ++i) {
    text += tenant_text(std::to_string(i), "token = 't" + std::to_string(i) + "'");
  }
  EXPECT_EQ(parsed(text).value().count(), Tenants::kCountMax);
  EXPECT_TRUE(fails_with(parsed(text + tenant_text("more", "token = 'more'")), Errc::usage,
                         "4096 times at most"));
}

TEST(TenantsTest, RefusesFileAccessibleToAllUsers) {
  const test::TemporaryDirectory directory;
  const auto file = directory.write("tenants.toml", tenant_text("a", "token = 'x'"));
  ::chmod(file.c_str(), 0644);
  EXPECT_TRUE(fails_with(Tenants::read(file), Errc::usage, "chmod o="));
  ::chmod(file.c_str(), 0640);
  EXPECT_TRUE(Tenants::read(file).value().sign_in("x", kToday));
  EXPECT_TRUE(fails_with(Tenants::read(file.string() + "-none"), Errc::io, "No such file"));
}

}  // namespace
}  // namespace edgedraft::server
