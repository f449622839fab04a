#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/clock.h"
#include "shared/base/error.h"

namespace boost::asio::ssl {
class context;
}
struct ssl_st;          // OpenSSL's SSL
struct ssl_session_st;  // and SSL_SESSION

// TLS 1.3 only, ALPN "edgedraft/1", no early data, no renegotiation; sessions resume.
namespace edgedraft {

using TlsContext = boost::asio::ssl::context;
using NativeTls = ssl_st;

struct TlsServerOptions {
  std::filesystem::path certificate_file{};  // PEM, chain included
  std::filesystem::path key_file{};
  // CA for client certificates, with its revocation lists. Certificates must be valid and not
  // revoked at each handshake, resumed or not. Empty: clients need none.
  std::filesystem::path client_ca_file{};
};

// Errors    io        an unreadable file
//           bad_file  a file without PEM, a CA file without a certificate, an encrypted key, or a
//                     key that does not match the certificate
//           usage     a key that is not private: check_private(); a pipe: check_pem_file()
Result<std::shared_ptr<TlsContext>> make_server_context(const TlsServerOptions& options);

// A client trusts the pin if there is one, else the CA file, else the system's roots.
struct TlsClientOptions {
  std::string pin{};                         // "sha256:HEX" of the server's public key
  std::filesystem::path ca_file{};           // PEM
  std::filesystem::path certificate_file{};  // our own, if the server asks for one
  std::filesystem::path key_file{};
};

// Errors    usage         a malformed pin, and as above
//           io, bad_file  as above
Result<std::shared_ptr<TlsContext>> make_client_context(const TlsClientOptions& options);

// Sets the server name for SNI and for the check of its certificate (skipped with a pin). A
// `replica` replaces the name in SNI only, as a hint for a balancer: the certificate is still
// checked for `host`.
// Errors    usage  no certificate can have such a name
Result<void> set_server_name(NativeTls* tls, const TlsClientOptions& options,
                             const std::string& host, const std::string& replica = {});

// Checks a finished handshake, resumed or not, before a byte is trusted: protocol, ALPN, pin, dates
// of the certificate.
// Errors    untrusted naming the reason and the remedy; protocol if ALPN is missing
Result<void> check_server(NativeTls* tls, const TlsClientOptions& options);

// Errors    protocol if the client did not ask for ALPN edgedraft/1
Result<void> check_client(NativeTls* tls);

// Pin of the client's certificate, which survives a renewal; nullopt without a certificate.
std::optional<std::string> client_key(NativeTls* tls);

// Time until the client's certificate expires, by the system's clock; nullopt without one.
std::optional<Duration> client_time_left(NativeTls* tls);

// Describes a failed handshake, read or write to the user: an untrusted certificate, a peer without
// TLS or with another version, a broken connection.
Error explain_tls_error(NativeTls* tls, const boost::system::error_code& error,
                        const std::string& peer);

// Ticket for resuming with the same server; null if it gave none.
using TlsTicket = std::shared_ptr<ssl_session_st>;
TlsTicket take_ticket(NativeTls* tls);
void use_ticket(NativeTls* tls, const TlsTicket& ticket);
// True if the handshake resumed a ticket.
bool resumed(NativeTls* tls);

// Bytes that crossed the TCP socket below a TLS stream.
struct WireBytes {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};
WireBytes wire_bytes(NativeTls* tls);

}  // namespace edgedraft
