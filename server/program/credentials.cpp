#include "server/program/credentials.h"

#include <utility>

#include "shared/program/endpoint.h"
#include "shared/program/token_file.h"
#include "shared/protocol/limits.h"

namespace edgedraft {
namespace {

// A pipe, say: what was read of it is gone.
bool can_be_read_again(const std::filesystem::path& file) {
  std::error_code ignored;
  return file != "-" && (std::filesystem::is_regular_file(file, ignored) ||
                         !std::filesystem::exists(file, ignored));
}

Result<std::optional<std::string>> read_token(const CredentialFiles& files,
                                              const std::optional<std::string>& before) {
  if (files.token.empty()) {
    if (is_loopback(files.listen_host) || !files.client_ca.empty()) {
      return std::optional<std::string>();
    }
    return Error{Errc::usage,
                 "--listen " + files.listen_host +
                     ": beyond loopback clients have to sign in. Give --token-file (for example: "
                     "(umask 077; openssl rand -hex 32 > token)) or --client-ca"};
  }
  if (before && !can_be_read_again(files.token)) return before;
  auto token = read_token_file(files.token, kBearerTokenBytesMax);
  if (!token) return Error{token.error().code, "--token-file " + token.error().message};
  return std::optional(*std::move(token));
}

using OwnIdentity = Result<TlsIdentity>(const std::filesystem::path& state_directory);

// `own` tells the server's own identity, where no certificate is given.
Result<TlsIdentity> read_identity(const CredentialFiles& files, OwnIdentity& own) {
  if (files.certificate.empty() != files.key.empty()) {
    return Error{Errc::usage, "--tls-cert and --tls-key go together"};
  }
  if (!files.certificate.empty()) return load_identity(files.certificate, files.key);
  return own(files.state);
}

Result<Credentials> read_all(const CredentialFiles& files,
                             const std::optional<std::string>& token_before, OwnIdentity& own) {
  auto token = read_token(files, token_before);
  if (!token) return token.error();
  auto identity = read_identity(files, own);
  if (!identity) return identity.error();
  auto tls = make_server_context({.certificate_file = identity->certificate_file,
                                  .key_file = identity->key_file,
                                  .client_ca_file = files.client_ca});
  if (!tls) return tls.error();
  return Credentials{
      .identity = *std::move(identity), .tls = *std::move(tls), .token = *std::move(token)};
}

}  // namespace

Result<Credentials> read_credentials(const CredentialFiles& files) {
  return read_all(files, {}, load_or_create_identity);
}

Result<Credentials> reread_credentials(const CredentialFiles& files,
                                       const std::optional<std::string>& token_before) {
  return read_all(files, token_before, load_identity);
}

}  // namespace edgedraft
