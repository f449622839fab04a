#include "shared/net/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/context.hpp>

#include "shared/base/check.h"
#include "shared/base/private_file.h"
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

std::shared_ptr<ssl::context> make_context(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  SSL_CTX* native = context->native_handle();
  EDGEDRAFT_CHECK(SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) == 1);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Data of the first flight could be replayed by whoever recorded it.
  SSL_CTX_set_max_early_data(native, 0);
  return context;
}

Error bad_pem(const std::filesystem::path& file, const boost::system::error_code& error) {
  return {Errc::bad_file, file.string() + ": " + error.message()};
}

Result<void> use_files(ssl::context& context, const std::filesystem::path& certificate_file,
                       const std::filesystem::path& key_file) {
  boost::system::error_code error;
  context.use_certificate_chain_file(certificate_file.string(), error);
  if (error) return bad_pem(certificate_file, error);
  context.use_private_key_file(key_file.string(), ssl::context::pem, error);
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
  // Tickets of a client with a certificate are bound to it by this; without it they are refused.
  EDGEDRAFT_CHECK(SSL_CTX_set_session_id_context(
                      native, reinterpret_cast<const unsigned char*>(kSessionContext.data()),
                      kSessionContext.size()) == 1);
  if (!options.client_ca_file.empty()) {
    boost::system::error_code error;
    context->load_verify_file(options.client_ca_file.string(), error);
    if (error) return bad_pem(options.client_ca_file, error);
    SSL_CTX_set_client_CA_list(native, SSL_load_client_CA_file(options.client_ca_file.c_str()));
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
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
    context->load_verify_file(options.ca_file.string(), error);
    if (error) return bad_pem(options.ca_file, error);
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
                             const std::string& host) {
  boost::system::error_code not_numeric;
  boost::asio::ip::make_address(host, not_numeric);
  bool set = !not_numeric || SSL_set_tlsext_host_name(tls, host.c_str()) == 1;
  if (options.pin.empty()) {
    X509_VERIFY_PARAM* param = SSL_get0_param(tls);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    set = set && (not_numeric ? X509_VERIFY_PARAM_set1_host(param, host.c_str(), host.size())
                              : X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str())) == 1;
  }
  if (set) return boost::system::in_place_value;
  return Error{Errc::usage, "no certificate can have the name '" + host +
                                "': connect by another, or trust the server's key with --pin"};
}

Result<void> check_server(NativeTls* tls, const TlsClientOptions& options) {
  if (!has_alpn(tls)) {
    return Error{Errc::protocol,
                 "the server speaks TLS, but is no edgedraft server: it does not "
                 "know the protocol edgedraft/1"};
  }
  const X509* certificate = SSL_get0_peer_certificate(tls);
  if (!certificate) return Error{Errc::untrusted, "the server showed no certificate"};
  if (!options.pin.empty()) {
    const std::string pin = pin_of(certificate);
    const Result<std::string> wanted = parse_pin(options.pin);
    EDGEDRAFT_CHECK(wanted.has_value());
    if (pin != *wanted) {
      return Error{Errc::untrusted, "the server's key is not the pinned one: expected " + *wanted +
                                        ", got " + pin +
                                        ". Someone may be in between; if the server was set up "
                                        "anew, take the pin from its 'ready' line"};
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

TlsTicket take_ticket(NativeTls* tls) {
  SSL_SESSION* session = SSL_get0_session(tls);
  if (!session || !SSL_SESSION_is_resumable(session)) return nullptr;
  // A copy: OpenSSL spoils the original when the connection breaks, which is when we want it.
  return TlsTicket(SSL_SESSION_dup(session), SSL_SESSION_free);
}

void use_ticket(NativeTls* tls, const TlsTicket& ticket) {
  if (ticket) SSL_set_session(tls, ticket.get());
}

bool resumed(NativeTls* tls) {
  return SSL_session_reused(tls) == 1;
}

WireBytes wire_bytes(NativeTls* tls) {
  // Asio moves ciphertext between these and the socket, all of it and nothing else.
  return {.in = BIO_number_read(SSL_get_rbio(tls)), .out = BIO_number_written(SSL_get_wbio(tls))};
}

}  // namespace edgedraft
