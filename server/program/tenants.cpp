#include "server/program/tenants.h"

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "shared/base/printable.h"
#include "shared/program/token_file.h"
#include "shared/program/toml_reader.h"
#include "shared/protocol/constant_time.h"
#include "shared/protocol/limits.h"

namespace edgedraft::server {
namespace {

std::string date_of(WallTime time) {
  const std::time_t seconds = time.time_since_epoch().count();
  std::tm parts{};
  char text[64] = "";
  if (::gmtime_r(&seconds, &parts) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  }
  return text;
}

Result<Tenant> unless_expired(const Tenant& tenant, WallTime now) {
  if (!tenant.expires || now < *tenant.expires) return tenant;
  return Error{Errc::unauthorized, "the token of tenant " + tenant.name + " expired on " +
                                       date_of(*tenant.expires) +
                                       ": ask the server's operator for another"};
}

// Fault of a tenant's name with its remedy; empty if there is none.
std::string name_complaint(const std::string& name) {
  if (name.empty() || name.size() > Tenants::kNameBytesMax) {
    return "expected 1 to " + std::to_string(Tenants::kNameBytesMax) + " bytes";
  }
  if (printable(name, Lines::one) != name) return "contains characters that are not printable";
  return {};
}

void read_token(TomlReader& reader, Tenant& tenant) {
  if (reader.has("token") == reader.has("token_sha256")) {
    return reader.wrong(reader.has("token") ? "token" : "token_sha256",
                        "give either token or token_sha256");
  }
  std::string text;
  if (reader.read("token_sha256", text)) {
    const auto digest = from_hex(text);
    if (!digest || digest->size() != tenant.token_sha256.size()) {
      return reader.wrong("token_sha256",
                          "expected 64 hexadecimal digits, for example of `tr -d '\\n' < token | "
                          "sha256sum`");
    }
    std::ranges::copy(*digest, tenant.token_sha256.begin());
  } else if (reader.read("token", text)) {
    if (const std::string wrong = token_complaint(text, kBearerTokenBytesMax); !wrong.empty()) {
      return reader.wrong("token", wrong);
    }
    tenant.token_sha256 = sha256(as_byte_view(text));
  }
}

Tenant read_tenant(TomlReader& reader) {
  Tenant tenant;
  reader.require("name", "the tenant's name");
  if (reader.read("name", tenant.name)) {
    if (const std::string wrong = name_complaint(tenant.name); !wrong.empty()) {
      reader.wrong("name", wrong);
    }
  }
  read_token(reader, tenant);
  reader.read("expires", tenant.expires);
  reader.read("sessions", tenant.quota.sessions_max, 1.0, double{Tenants::kSessionsMax});
  reader.read("tokens_per_minute", tenant.quota.tokens_per_minute, 1.0,
              double{Tenants::kTokensPerMinuteMax});
  return tenant;
}

}  // namespace

Result<Tenants> Tenants::parse(std::string_view text, const std::filesystem::path& file) {
  const auto table = parse_toml(text, file);
  if (!table) return table.error();
  TomlFile source{.name = file.string()};
  TomlReader reader(*table, source);
  Tenants tenants;
  std::set<Digest> tokens;
  reader.tables("tenant", kCountMax, [&](TomlReader& entry) {
    Tenant tenant = read_tenant(entry);
    if (source.error) return;
    if (tenants.by_name_.contains(tenant.name)) {
      return entry.wrong("name", tenant.name + " is listed twice; give each tenant another name");
    }
    if (!tokens.insert(tenant.token_sha256).second) {
      return entry.wrong(entry.has("token") ? "token" : "token_sha256",
                         "is also another tenant's; give each tenant another token");
    }
    tenants.by_name_.emplace(tenant.name, std::move(tenant));
  });
  reader.refuse_unknown_keys();
  if (!source.error && tenants.by_name_.empty()) {
    reader.fail("lists no tenant; write [[tenant]] with name and token_sha256");
  }
  if (source.error) return *std::move(source.error);
  return tenants;
}

Result<Tenants> Tenants::read(const std::filesystem::path& file) {
  const auto text = read_secret_file(file, kFileBytesMax);
  if (!text) return text.error();
  return parse(*text, file == "-" ? "standard input" : file);
}

Result<Tenant> Tenants::sign_in(std::string_view token, WallTime now) const {
  const Digest digest = sha256(as_byte_view(token));
  const Tenant* found = nullptr;
  for (const auto& [name, tenant] : by_name_) {
    if (equal_in_constant_time(tenant.token_sha256, digest)) found = &tenant;
  }
  if (found != nullptr) return unless_expired(*found, now);
  return Error{Errc::unauthorized,
               "wrong token: no tenant of this server has it; compare the client's --token-file "
               "with the server's --tenants"};
}

Result<Tenant> Tenants::find(const std::string& name, WallTime now) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return unless_expired(found->second, now);
  return Error{Errc::unauthorized, "tenant " + name +
                                       " is no longer listed by this server: ask its operator for "
                                       "another token"};
}

}  // namespace edgedraft::server
