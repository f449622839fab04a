#include "client/trust/trust_options.h"

#include <CLI/CLI.hpp>

#include "shared/net/certificate.h"
#include "shared/program/token_file.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"

namespace edgedraft::client {

void declare_trust(CLI::App& app, TrustOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return app.add_option(name, value, what)->type_name(type);
  };
  TlsClientOptions& tls = options.tls;
  add("--pin", tls.pin, "sha256:HEX",
      "Pin of the server's public key, as printed when the server starts")
      ->check(accepted_by(parse_pin));
  add("--ca", tls.ca_file, "FILE",
      "Trust servers with a certificate signed by this CA (PEM) [the system's CAs, unless --pin is "
      "given]");
  add("--token-file", options.token_file, "FILE",
      "File with the bearer token (one line, not world-readable)");
  add("--tls-cert", tls.certificate_file, "FILE",
      "Client certificate (PEM), if the server requires one");
  add("--tls-key", tls.key_file, "FILE", "Private key of --tls-cert (PEM)");
}

Result<std::string> check_trust(const TrustOptions& options) {
  const TlsClientOptions& tls = options.tls;
  if (!tls.pin.empty() && !tls.ca_file.empty()) {
    return usage_error("--pin and --ca exclude each other: give the one you trust");
  }
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    return usage_error(
        "--tls-cert and --tls-key go together: give a certificate and its private key");
  }
  if (options.token_file.empty()) return std::string();
  auto token = read_token_file(options.token_file, kBearerTokenBytesMax);
  if (!token) return Error{token.error().code, "--token-file " + token.error().message};
  return token;
}

}  // namespace edgedraft::client
