#include "shared/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstddef>
#include <string_view>

#include "shared/base/check.h"
#include "shared/base/text_file.h"
#include "shared/net/certificate.h"

namespace edgedraft {
namespace {

namespace ssl = boost::asio::ssl;

constexpr std::array<unsigned char, 12> kAlpn = {11,  'e', 'd', 'g', 'e', 'd',
                                                 'r', 'a', 'f', 't', '/', '1'};
constexpr std::string_view kSessionContext = "edgedraft";

int select_alpn(SSL*, const unsigned char** out, unsigned char* out_length,
                const unsigned char* offered, unsigned offered_length, void*) {
  unsigned char* selected = nullptr;
  const int found = SSL_select_next_proto(&selected, out_length, kAlpn.data(), kAlpn.size(),
                                          offered, offered_length);
  *out = selected;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool has_alpn(SSL* tls) {
  const unsigned char* name = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(tls, &name, &length);
  return length == kAlpn.size() - 1 && std::equal(name, name + length, kAlpn.begin() + 1);
}

// True if a full handshake would accept that client certificate now. Tickets hold no intermediate
// certificates: clients that need some do a full handshake.
bool is_trusted_client(SSL* tls, X509* certificate) {
  if (certificate == nullptr) return false;
  X509_STORE* const trusted = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(tls));
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> check(X509_STORE_CTX_new(),
                                                                              X509_STORE_CTX_free);
  // Errors left in the thread's queue would look like a failure of the handshake.
  ERR_set_mark();
  const bool is_trusted = check &&
                          X509_STORE_CTX_init(check.get(), trusted, certificate, nullptr) == 1 &&
                          X509_STORE_CTX_set_default(check.get(), "ssl_client") == 1 &&
                          X509_verify_cert(check.get()) == 1;
  ERR_pop_to_mark();
  return is_trusted;
}

// OpenSSL verifies client certificates in full handshakes only, and each resumed session gets a new
// ticket. An expired certificate would stay valid forever, even without its key. If it is
// untrusted, the ticket is ignored, and the full handshake reports the reason.
SSL_TICKET_RETURN judge_client_ticket(SSL* tls, SSL_SESSION* session, const unsigned char*,
                                      std::size_t, SSL_TICKET_STATUS status, void*) {
  const bool is_ours = status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW;
  return is_ours && is_trusted_client(tls, SSL_SESSION_get0_peer(session))
             ? SSL_TICKET_RETURN_USE_RENEW
             : SSL_TICKET_RETURN_IGNORE_RENEW;
}

std::shared_ptr<ssl::context> make_context(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  SSL_CTX* native = context->native_handle();
  EDGEDRAFT_CHECK(SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) == 1);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Early data could be replayed by an eavesdropper.
  SSL_CTX_set_max_early_data(native, 0);
  return context;
}

Error bad_pem(const std::filesystem::path& file, const boost::system::error_code& error) {
  return {Errc::bad_file, file.string() + ": " + error.message()};
}

// Trusts the file's certificates and applies its revocation lists. With any list, OpenSSL requires
// a current one from the CA that signed a peer's certificate.
Result<void> use_authorities(ssl::context& context, const std::filesystem::path& file) {
  if (auto readable = check_pem_file(file); !readable) return readable;
  boost::system::error_code error;
  context.load_verify_file(file.string(), error);
  if (error) return bad_pem(file, error);
  X509_STORE* const trusted = SSL_CTX_get_cert_store(context.native_handle());
  bool has_certificate = false;
  bool has_list = false;
  const STACK_OF(X509_OBJECT)* const found = X509_STORE_get0_objects(trusted);
  for (int i = 0; i < sk_X509_OBJECT_num(found); ++i) {
    const X509_LOOKUP_TYPE type = X509_OBJECT_get_type(sk_X509_OBJECT_value(found, i));
    has_certificate = has_certificate || type == X509_LU_X509;
    has_list = has_list || type == X509_LU_CRL;
  }
  if (!has_certificate) {
    return Error{Errc::bad_file, file.string() + ": contains no CA certificate"};
  }
  if (has_list) EDGEDRAFT_CHECK(X509_STORE_set_flags(trusted, X509_V_FLAG_CRL_CHECK) == 1);
  return boost::system::in_place_value;
}

Result<void> use_files(ssl::context& context, const std::filesystem::path& certificate_file,
                       const std::filesystem::path& key_file) {
  for (const std::filesystem::path& file : {certificate_file, key_file}) {
    if (auto readable = check_pem_file(file); !readable) return readable;
  }
  boost::system::error_code error;
  context.use_certificate_chain_file(certificate_file.string(), error);
  if (error) return bad_pem(certificate_file, error);
  bool encrypted = false;
  SSL_CTX_set_default_passwd_cb(context.native_handle(), give_no_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context.native_handle(), &encrypted);
  context.use_private_key_file(key_file.string(), ssl::context::pem, error);
  SSL_CTX_set_default_passwd_cb(context.native_handle(), nullptr);
  SSL_CTX_set_default_passwd_cb_userdata(context.native_handle(), nullptr);
  if (encrypted) return encrypted_key(key_file);
  if (error) return bad_pem(key_file, error);
  return check_private(key_file);
}

}  // namespace

Result<std::shared_ptr<TlsContext>> make_server_context(const TlsServerOptions& options) {
  const auto context = make_context(ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  if (auto used = use_files(*context, options.certificate_file, options.key_file); !used) {
    return used.error();
  }
  SSL_CTX_set_alpn_select_cb(native, select_alpn, nullptr);
  // Binds tickets of clients with certificates to this context; OpenSSL refuses them otherwise.
  EDGEDRAFT_CHECK(SSL_CTX_set_session_id_context(
                      native, reinterpret_cast<const unsigned char*>(kSessionContext.data()),
                      kSessionContext.size()) == 1);
  if (!options.client_ca_file.empty()) {
    if (auto used = use_authorities(*context, options.client_ca_file); !used) return used.error();
    SSL_CTX_set_client_CA_list(native, SSL_load_client_CA_file(options.client_ca_file.c_str()));
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
    EDGEDRAFT_CHECK(SSL_CTX_set_session_ticket_cb(native, nullptr, judge_client_ticket, nullptr) ==
                    1);
  }
  return context;
}

Result<std::shared_ptr<TlsContext>> make_client_context(const TlsClientOptions& options) {
  const auto context = make_context(ssl::context::tls_client);
  EDGEDRAFT_CHECK(SSL_CTX_set_alpn_protos(context->native_handle(), kAlpn.data(), kAlpn.size()) ==
                  0);
  boost::system::error_code error;
  if (!options.pin.empty()) {
    if (auto pin = parse_pin(options.pin); !pin) return pin.error();
    // check_server() decides; a self-signed certificate would fail here.
    context->set_verify_mode(ssl::verify_none);
  } else if (!options.ca_file.empty()) {
    if (auto used = use_authorities(*context, options.ca_file); !used) return used.error();
    context->set_verify_mode(ssl::verify_peer);
  } else {
    context->set_default_verify_paths(error);
    context->set_verify_mode(ssl::verify_peer);
  }
  if (!options.certificate_file.empty()) {
    if (auto used = use_files(*context, options.certificate_file, options.key_file); !used) {
      return used.error();
    }
  }
  return context;
}

Result<void> set_server_name(NativeTls* tls, const TlsClientOptions& options,
                             const std::string& host, const std::string& replica) {
  boost::system::error_code not_numeric;
  boost::asio::ip::make_address(host, not_numeric);
  const bool is_named = not_numeric || !replica.empty();
  const std::string& name = replica.empty() ? host : replica;
  bool set = !is_named || SSL_set_tlsext_host_name(tls, name.c_str()) == 1;
  if (options.pin.empty()) {
    X509_VERIFY_PARAM* param = SSL_get0_param(tls);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    set = set && (not_numeric ? X509_VERIFY_PARAM_set1_host(param, host.c_str(), host.size())
                              : X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str())) == 1;
  }
  if (set) return boost::system::in_place_value;
  return Error{Errc::usage, "'" + host +
                                "' cannot be the name in a certificate: use another host name, or "
                                "trust the server's key with --pin"};
}

Result<void> check_server(NativeTls* tls, const TlsClientOptions& options) {
  if (!has_alpn(tls)) {
    return Error{Errc::protocol,
                 "the server speaks TLS, but not the protocol edgedraft/1: it is not an "
                 "edgedraft server"};
  }
  const X509* certificate = SSL_get0_peer_certificate(tls);
  if (!certificate) return Error{Errc::untrusted, "the server presented no certificate"};
  if (!options.pin.empty()) {
    const std::string pin = pin_of(certificate);
    const Result<std::string> wanted = parse_pin(options.pin);
    EDGEDRAFT_CHECK(wanted.has_value());
    if (pin != *wanted) {
      return Error{Errc::untrusted, "the server's key does not match --pin: expected " + *wanted +
                                        ", got " + pin +
                                        ". Someone may intercept the connection; if the server "
                                        "has a new key, take the pin from its 'ready' line"};
    }
  }
  return check_dates(certificate);
}

Result<void> check_client(NativeTls* tls) {
  if (has_alpn(tls)) return boost::system::in_place_value;
  return Error{Errc::protocol, "the client speaks TLS, but not the protocol edgedraft/1"};
}

std::optional<std::string> client_key(NativeTls* tls) {
  const X509* certificate = SSL_get0_peer_certificate(tls);
  if (!certificate) return std::nullopt;
  return pin_of(certificate);
}

std::optional<Duration> client_time_left(NativeTls* tls) {
  const X509* const certificate = SSL_get0_peer_certificate(tls);
  if (!certificate) return std::nullopt;
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(certificate)) != 1) {
    return Duration::zero();
  }
  // A certificate may be valid until the year 9999, which overflows nanoseconds.
  return std::chrono::days(std::min(days, 1000)) + std::chrono::seconds(seconds);
}

TlsTicket take_ticket(NativeTls* tls) {
  SSL_SESSION* session = SSL_get0_session(tls);
  if (!session || !SSL_SESSION_is_resumable(session)) return nullptr;
  // Copy: OpenSSL invalidates the original when the connection breaks, just when it is needed.
  return TlsTicket(SSL_SESSION_dup(session), SSL_SESSION_free);
}

void use_ticket(NativeTls* tls, const TlsTicket& ticket) {
  if (ticket) SSL_set_session(tls, ticket.get());
}

bool resumed(NativeTls* tls) {
  return SSL_session_reused(tls) == 1;
}

WireBytes wire_bytes(NativeTls* tls) {
  // Asio moves only ciphertext between these and the socket.
  return {.in = BIO_number_read(SSL_get_rbio(tls)), .out = BIO_number_written(SSL_get_wbio(tls))};
}

}  // namespace edgedraft
