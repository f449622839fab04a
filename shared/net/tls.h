#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace boost::asio::ssl {
class context;
}
struct ssl_st;          // OpenSSL's SSL
struct ssl_session_st;  // and SSL_SESSION

// TLS 1.3 alone, ALPN "edgedraft/1", no early data, no renegotiation; sessions resume.
namespace edgedraft {

using TlsContext = boost::asio::ssl::context;
using NativeTls = ssl_st;

struct TlsServerOptions {
  std::filesystem::path certificate_file{};  // PEM, chain included
  std::filesystem::path key_file{};
  // The CA whose certificates clients have to show, valid and not revoked by a list in that file at
  // the time of each handshake, resumed or not. Empty: they need none.
  std::filesystem::path client_ca_file{};
};

// Errors    io        a file that cannot be read
//           bad_file  a file without PEM, a CA's without a certificate, an encrypted key, or one
//                     that is not the certificate's
//           usage     a key that is not private: check_private(); a pipe: check_pem_file()
Result<std::shared_ptr<TlsContext>> make_server_context(const TlsServerOptions& options);

// How a client decides whom to trust: by the pin where there is one, else by the CA file, else by
// the system's roots.
struct TlsClientOptions {
  std::string pin{};                         // "sha256:HEX" of the server's public key
  std::filesystem::path ca_file{};           // PEM
  std::filesystem::path certificate_file{};  // our own, where the server asks for one
  std::filesystem::path key_file{};
};

// Errors    usage         a pin that is none, and as above
//           io, bad_file  as above
Result<std::shared_ptr<TlsContext>> make_client_context(const TlsClientOptions& options);

// Names the server that the handshake shall reach: SNI, and the name that its certificate must have
// (not looked at where a pin decides).
// Errors    usage  no certificate can have such a name
Result<void> set_server_name(NativeTls* tls, const TlsClientOptions& options,
                             const std::string& host);

// What a finished handshake has to stand up to before a byte is trusted, resumed or not: protocol,
// ALPN, the pin, the certificate's dates.
// Errors    untrusted naming the reason and the remedy; protocol where ALPN is missing
Result<void> check_server(NativeTls* tls, const TlsClientOptions& options);

// Errors    protocol where the client did not ask for ALPN edgedraft/1
Result<void> check_client(NativeTls* tls);

// The pin of the client's certificate, which outlives a renewal; nothing where it showed none.
std::optional<std::string> client_key(NativeTls* tls);

// Turns the error of a handshake, a read or a write into a sentence for the user: an untrusted
// certificate, a peer that does not speak TLS or another version of it, a broken connection.
Error explain_tls_error(NativeTls* tls, const boost::system::error_code& error,
                        const std::string& peer);

// What a later handshake with the same server can take up; nothing where it gave no ticket.
using TlsTicket = std::shared_ptr<ssl_session_st>;
TlsTicket take_ticket(NativeTls* tls);
void use_ticket(NativeTls* tls, const TlsTicket& ticket);
// The handshake took a ticket up.
bool resumed(NativeTls* tls);

// Bytes that crossed the TCP socket below a TLS stream.
struct WireBytes {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};
WireBytes wire_bytes(NativeTls* tls);

}  // namespace edgedraft
