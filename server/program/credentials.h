#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/error.h"
#include "shared/net/identity.h"
#include "shared/net/tls.h"

namespace edgedraft {

// The files that prove who the server is and decide which clients may sign in. Empty: not given.
struct CredentialFiles {
  std::string listen_host;      // beyond loopback clients have to sign in
  std::filesystem::path state;  // of the server's own identity, if no certificate is given
  std::filesystem::path token;
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::filesystem::path client_ca;
};

// What they hold.
struct Credentials {
  TlsIdentity identity;
  std::shared_ptr<TlsContext> tls;
  std::optional<std::string> token;  // that clients must show; never empty
  bool token_stays = false;          // it came from what cannot be read again
};

// At the start.
//
// Errors    usage if the files do not go together or do not suffice for that host, and for a token
//           or key that is refused; io, bad_file naming the file
Result<Credentials> read_credentials(const CredentialFiles& files);

// Again, at a SIGHUP. The token in force stays where its file cannot be read again, as standard
// input. An identity of the server's own that is gone is not made anew: clients know it by
// its pin.
//
// Errors    as of read_credentials()
Result<Credentials> reread_credentials(const CredentialFiles& files,
                                       const std::optional<std::string>& token_in_force);

}  // namespace edgedraft
