#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>

#include "shared/net/tls.h"

namespace edgedraft {
namespace {

// Worded for the side that refused the certificate: a server's message states what its client
// needs.
Error explain_certificate(NativeTls* tls, const std::string& peer) {
  const long result = SSL_get_verify_result(tls);
  const bool of_client = SSL_is_server(tls) == 1;
  std::string message = peer + " is not trusted: ";
  message += X509_verify_cert_error_string(result);
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      message += "; use a host name that its certificate contains, or trust its key with --pin";
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      message += of_client ? "; the client has to renew its certificate"
                           : "; renew the certificate on the server";
      break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CRL_NOT_YET_VALID:
      message += "; check the clocks of both machines";
      break;
    case X509_V_ERR_CERT_REVOKED:
      break;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_CRL_HAS_EXPIRED:
      message +=
          "; put a current revocation list of the CA that signed its certificate into the file of ";
      message += of_client ? "--client-ca, and reload the server" : "--ca";
      break;
    default:
      message +=
          of_client
              ? "; to admit the client, add the CA that signed its certificate to the file of "
                "--client-ca"
              : "; give the CA that signed its certificate with --ca, or trust its key with "
                "--pin and the pin of the server's 'ready' line";
  }
  return {Errc::untrusted, message};
}

// Explains a fatal alert or a failed handshake.
Error explain_reason(NativeTls* tls, const boost::system::error_code& error,
                     const std::string& peer) {
  // An attacker on the path can inject records into an established connection, so a bad record
  // there says nothing about the peer. Alerts about certificates arrive after the handshake in TLS
  // 1.3.
  const bool established =
      SSL_get_finished(tls, nullptr, 0) > 0 && SSL_get_peer_finished(tls, nullptr, 0) > 0;
  switch (ERR_GET_REASON(static_cast<unsigned long>(error.value()))) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return explain_certificate(tls, peer);
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_BAD_PACKET_LENGTH:
      if (established) break;
      return {Errc::protocol, peer +
                                  " does not speak TLS: check the port, and that the peer is an "
                                  "edgedraft program"};
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_VERSION_TOO_LOW:
      if (established) break;
      return {Errc::protocol, peer + " does not support TLS 1.3; older versions are not allowed"};
    case SSL_R_NO_APPLICATION_PROTOCOL:
    // Some OpenSSL 3.0 releases lack its SSL_R_ name.
    case SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL:
      return {Errc::protocol, peer + " speaks TLS, but not the protocol edgedraft/1"};
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return {Errc::untrusted, peer + ": a client certificate is required but was not sent"};
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      return {Errc::untrusted,
              peer + " does not trust this program's certificate: " + error.message()};
    default:
      break;
  }
  return {Errc::link_down, peer + ": TLS failed: " + error.message()};
}

}  // namespace

Error explain_tls_error(NativeTls* tls, const boost::system::error_code& error,
                        const std::string& peer) {
  if (error.category() == boost::asio::error::get_ssl_category()) {
    return explain_reason(tls, error, peer);
  }
  const bool ended = error == boost::asio::error::eof ||
                     error == boost::asio::ssl::error::stream_truncated ||
                     error == boost::asio::error::connection_reset;
  if (ended && !SSL_is_init_finished(tls)) {
    return {Errc::link_down, peer + " closed the connection during the TLS handshake"};
  }
  if (error == boost::asio::error::eof || error == boost::asio::ssl::error::stream_truncated) {
    return {Errc::link_down, peer + " closed the connection"};
  }
  return {Errc::link_down, peer + ": " + error.message()};
}

}  // namespace edgedraft
