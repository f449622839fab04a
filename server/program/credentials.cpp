#include "server/program/credentials.h"

#include <utility>

#include "shared/program/endpoint.h"
#include "shared/program/token_file.h"
#include "shared/protocol/limits.h"

namespace edgedraft::server {
namespace {

// `in_force` is null at the initial read.
Result<void> read_sign_in(const CredentialFiles& files, const SignIn* in_force, Credentials& into) {
  if (!files.token.empty() && !files.tenants.empty()) {
    return Error{Errc::usage,
                 "--token-file and --tenants exclude each other: list the token in the file of "
                 "--tenants"};
  }
  const auto& file = files.tenants.empty() ? files.token : files.tenants;
  if (file.empty()) {
    if (is_loopback(files.listen_host) || !files.client_ca.empty()) return {};
    return Error{Errc::usage,
                 "--listen " + files.listen_host +
                     ": clients must sign in unless it is a loopback address; give --token-file "
                     "(for example: (umask 077; openssl rand -hex 32 > token)), --tenants or "
                     "--client-ca"};
  }
  into.sign_in_stays = in_force != nullptr && is_read_once(file);
  if (into.sign_in_stays) {
    into.sign_in = *in_force;
    return {};
  }
  const auto failure = [](const std::string& option, const Error& error) {
    return Error{error.code, option + ' ' + error.message};
  };
  if (!files.tenants.empty()) {
    auto tenants = Tenants::read(file);
    if (!tenants) return failure("--tenants", tenants.error());
    into.sign_in.tenants = *std::move(tenants);
    return {};
  }
  auto token = read_token_file(file, kBearerTokenBytesMax);
  if (!token) return failure("--token-file", token.error());
  into.sign_in.token = *std::move(token);
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

Result<Credentials> read_all(const CredentialFiles& files, const SignIn* in_force,
                             OwnIdentity& own) {
  Credentials read;
  if (auto sign_in = read_sign_in(files, in_force, read); !sign_in) return sign_in.error();
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
  return read_all(files, nullptr, load_or_create_identity);
}

Result<Credentials> reread_credentials(const CredentialFiles& files, const SignIn& in_force) {
  return read_all(files, &in_force, load_identity);
}

}  // namespace edgedraft::server
