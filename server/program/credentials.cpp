#include "server/program/credentials.h"

#include <utility>

#include "shared/program/endpoint.h"
#include "shared/program/token_file.h"
#include "shared/protocol/limits.h"

namespace edgedraft::server {
namespace {

// Empty if the current token stays.
Result<std::optional<std::string>> read_given_token(const CredentialFiles& files, bool again) {
  if (again) return reread_token_file(files.token, kBearerTokenBytesMax);
  auto token = read_token_file(files.token, kBearerTokenBytesMax);
  if (!token) return token.error();
  return std::optional(*std::move(token));
}

Result<void> read_token(const CredentialFiles& files, const std::optional<std::string>& in_force,
                        Credentials& into) {
  if (files.token.empty()) {
    if (is_loopback(files.listen_host) || !files.client_ca.empty()) return {};
    return Error{Errc::usage,
                 "--listen " + files.listen_host +
                     ": clients must sign in unless it is a loopback address; give --token-file "
                     "(for example: (umask 077; openssl rand -hex 32 > token)) or --client-ca"};
  }
  auto token = read_given_token(files, in_force.has_value());
  if (!token) return Error{token.error().code, "--token-file " + token.error().message};
  into.token_stays = !*token;
  into.token = into.token_stays ? in_force : *std::move(token);
  return {};
}

using OwnIdentity = Result<TlsIdentity>(const std::filesystem::path& state_directory);

// `own` returns the server's generated identity if no certificate is given.
Result<TlsIdentity> read_identity(const CredentialFiles& files, OwnIdentity& own) {
  if (files.certificate.empty() != files.key.empty()) {
    return Error{Errc::usage, "--tls-cert and --tls-key must be given together"};
  }
  if (!files.certificate.empty()) return load_identity(files.certificate, files.key);
  if (files.state.empty()) {
    return Error{Errc::usage, "no home folder for the server's key: give a folder with --state"};
  }
  return own(files.state);
}

Result<Credentials> read_all(const CredentialFiles& files,
                             const std::optional<std::string>& token_in_force, OwnIdentity& own) {
  Credentials read;
  if (auto token = read_token(files, token_in_force, read); !token) return token.error();
  auto identity = read_identity(files, own);
  if (!identity) return identity.error();
  auto tls = make_server_context({.certificate_file = identity->certificate_file,
                                  .key_file = identity->key_file,
                                  .client_ca_file = files.client_ca});
  if (!tls) return tls.error();
  read.identity = *std::move(identity);
  read.tls = *std::move(tls);
  return read;
}

}  // namespace

Result<Credentials> read_credentials(const CredentialFiles& files) {
  return read_all(files, {}, load_or_create_identity);
}

Result<Credentials> reread_credentials(const CredentialFiles& files,
                                       const std::optional<std::string>& token_in_force) {
  return read_all(files, token_in_force, load_identity);
}

}  // namespace edgedraft::server
