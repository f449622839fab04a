#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"
#include "shared/net/tls.h"

namespace CLI {
class App;
}

namespace edgedraft::client {

// Which server to trust, and how to sign in there.
struct TrustOptions {
  TlsClientOptions tls;
  std::filesystem::path token_file;  // file with the bearer token; empty: none
};

void declare_trust(CLI::App& app, TrustOptions& options);

// Checks combinations of options and reads the token; empty if there is no file.
// Errors    usage naming the option; io for the token file
Result<std::string> check_trust(const TrustOptions& options);

}  // namespace edgedraft::client
