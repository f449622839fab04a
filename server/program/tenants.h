#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "server/passes/quota.h"
#include "shared/base/error.h"
#include "shared/base/sha256.h"

namespace edgedraft::server {

using WallTime = std::chrono::sys_seconds;

// One or more devices that sign in with one token.
struct Tenant {
  std::string name;  // the identity of its sessions
  Digest token_sha256{};
  std::optional<WallTime> expires{};
  Quota quota{};
};

// Tenants of a file, at least one. Names and tokens are unique.
class Tenants {
 public:
  static constexpr std::size_t kCountMax = 4096;  // bounds the time of a sign-in
  static constexpr std::size_t kNameBytesMax = 64;
  static constexpr std::size_t kFileBytesMax = 4u << 20;
  static constexpr std::uint32_t kSessionsMax = 65536;
  static constexpr std::uint32_t kTokensPerMinuteMax = 1'000'000'000;

  // Parses [[tenant]] tables with `name`, `token` or `token_sha256`, and optionally `expires`,
  // `sessions` and `tokens_per_minute`.
  // Errors    usage naming file, line and key
  static Result<Tenants> parse(std::string_view text, const std::filesystem::path& file);
  // Errors    as of parse() and read_secret_file()
  static Result<Tenants> read(const std::filesystem::path& file);

  // Returns the tenant with this token. The time does not depend on the compared digests.
  // Errors    unauthorized: no such tenant, or expired
  Result<Tenant> sign_in(std::string_view token, WallTime now) const;
  // Returns the tenant of a client that has signed in.
  // Errors    unauthorized: no longer listed, or expired
  Result<Tenant> find(const std::string& name, WallTime now) const;

  std::size_t count() const { return by_name_.size(); }

 private:
  std::map<std::string, Tenant> by_name_;
};

// Secrets with which clients sign in: a token, tenants, or neither.
struct SignIn {
  std::optional<std::string> token{};  // never empty
  std::optional<Tenants> tenants{};
};

}  // namespace edgedraft::server
