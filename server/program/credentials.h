#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "server/program/tenants.h"
#include "shared/base/error.h"
#include "shared/net/identity.h"
#include "shared/net/tls.h"

namespace edgedraft::server {

// Files with the server's identity and the clients' credentials. Empty: not given.
struct CredentialFiles {
  std::string listen_host;      // beyond loopback, clients must sign in
  std::filesystem::path state;  // folder for a generated identity, if no certificate is given
  std::filesystem::path token;
  std::filesystem::path tenants;
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::filesystem::path client_ca;
};

// Contents of the files.
struct Credentials {
  TlsIdentity identity;
  std::shared_ptr<TlsContext> tls;
  SignIn sign_in;
  bool sign_in_stays = false;  // its source, such as standard input, cannot be read again
};

// Initial read.
//
// Errors    usage if the files are inconsistent, insufficient for that host, or hold a refused
//           token, tenant or key; io, bad_file with the file's name
Result<Credentials> read_credentials(const CredentialFiles& files);

// Rereads the files at a SIGHUP. The current token or tenants stay if their source cannot be read
// again, such as standard input. A missing generated identity is not recreated, since clients pin
// it.
//
// Errors    as of read_credentials()
Result<Credentials> reread_credentials(const CredentialFiles& files, const SignIn& in_force);

}  // namespace edgedraft::server
