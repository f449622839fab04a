#include "tests/net/net_support.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <new>

namespace edgedraft {
namespace {

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open(const std::filesystem::path& file, const char* mode) {
  return File(std::fopen(file.c_str(), mode), std::fclose);
}

// Written by make_identity().
struct Authority {
  Authority(const std::filesystem::path& directory, const std::string& name)
      : certificate(PEM_read_X509(open(directory / (name + "-cert.pem"), "r").get(), nullptr,
                                  nullptr, nullptr),
                    X509_free),
        key(PEM_read_PrivateKey(open(directory / (name + "-key.pem"), "r").get(), nullptr, nullptr,
                                nullptr),
            EVP_PKEY_free) {}

  Owned<X509> certificate;
  Owned<EVP_PKEY> key;
};

void add_extension(X509* to, int id, const std::string& value) {
  const Owned<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str()),
                                        X509_EXTENSION_free);
  X509_add_ext(to, extension.get(), -1);
}

}  // namespace

TlsIdentity make_identity(const std::filesystem::path& directory, const std::string& name,
                          const TestCertificate& options) {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Owned<X509> certificate(X509_new(), X509_free);
  X509* x = certificate.get();
  X509_set_version(x, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x), options.serial);
  X509_gmtime_adj(X509_getm_notBefore(x), options.valid_from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(x), options.valid_until_seconds);
  X509_NAME* subject = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(options.common_name.c_str()),
                             -1, -1, 0);
  X509_set_pubkey(x, key.get());
  add_extension(x, NID_basic_constraints, options.is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
  add_extension(x, NID_subject_alt_name, options.alternative_names);
  if (options.signer.empty()) {
    X509_set_issuer_name(x, subject);
    X509_sign(x, key.get(), EVP_sha256());
  } else {
    const Authority ca(directory, options.signer);
    X509_set_issuer_name(x, X509_get_subject_name(ca.certificate.get()));
    X509_sign(x, ca.key.get(), EVP_sha256());
  }
  const auto certificate_file = directory / (name + "-cert.pem");
  const auto key_file = directory / (name + "-key.pem");
  PEM_write_X509(open(certificate_file, "w").get(), x);
  PEM_write_PrivateKey(open(key_file, "w").get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::filesystem::permissions(
      key_file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return load_identity(certificate_file, key_file).value();
}

std::string revocation_list(const std::filesystem::path& directory, const std::string& ca,
                            const std::vector<long>& serials, long valid_until_seconds) {
  const Authority authority(directory, ca);
  const Owned<X509_CRL> list(X509_CRL_new(), X509_CRL_free);
  X509_CRL_set_version(list.get(), 1);  // version 2
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(authority.certificate.get()));
  const Owned<ASN1_TIME> from(X509_gmtime_adj(nullptr, -3600), ASN1_TIME_free);
  const Owned<ASN1_TIME> until(X509_gmtime_adj(nullptr, valid_until_seconds), ASN1_TIME_free);
  X509_CRL_set1_lastUpdate(list.get(), from.get());
  X509_CRL_set1_nextUpdate(list.get(), until.get());
  for (const long number : serials) {
    const Owned<ASN1_INTEGER> serial(ASN1_INTEGER_new(), ASN1_INTEGER_free);
    ASN1_INTEGER_set(serial.get(), number);
    X509_REVOKED* const revoked = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(revoked, serial.get());
    X509_REVOKED_set_revocationDate(revoked, from.get());
    X509_CRL_add0_revoked(list.get(), revoked);
  }
  X509_CRL_sign(list.get(), authority.key.get(), EVP_sha256());
  const Owned<BIO> text(BIO_new(BIO_s_mem()), BIO_free_all);
  PEM_write_bio_X509_CRL(text.get(), list.get());
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(text.get(), &bytes);
  return {bytes, static_cast<std::size_t>(length)};
}

void TestApplication::handle(const ReplyHandle& reply, const PeerInfo& peer, ServerEvent event) {
  if (fails_to_handle.exchange(false)) throw std::bad_alloc();
  if (std::holds_alternative<HelloReceived>(event)) {
    {
      const std::scoped_lock lock(mutex_);
      keys_.push_back(peer.certificate_key);
      handles_.push_back(reply);
    }
    if (rejection) {
      reply.fail(*rejection);
      return;
    }
    reply.accept({.model = "toy",
                  .context_count = 4096,
                  .nodes_max = 62,
                  .scale_groups = scale_groups,
                  .replica = replica});
  } else if (const auto* prefill = std::get_if<PrefillRequested>(&event)) {
    reply.verdict({.round = prefill->request.round, .next = 7, .ending = ending});
  } else if (const auto* received = std::get_if<HintsReceived>(&event)) {
    const ActivationLayout layout(scale_groups);
    reply.verdict({.round = received->hints.round,
                   .next = 8,
                   .ending = ending,
                   .activations = Bytes(layout.row_bytes())});
  } else if (const auto* resume = std::get_if<ResumeRequested>(&event)) {
    reply.refuse(resume->request.round, {Errc::session_unknown, "this server remembers nothing"});
  }
}

void TestApplication::ended(std::uint64_t, const PeerInfo&, const Error& reason,
                            const TrafficStats&) {
  const std::scoped_lock lock(mutex_);
  ended_.push_back(reason);
  changed_.notify_all();
  if (fails_to_end.exchange(false)) throw std::bad_alloc();
}

std::vector<Error> TestApplication::wait_ended(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, soon(), [&] { return ended_.size() >= count; });
  EXPECT_EQ(ended_.size(), count);
  return ended_;
}

std::vector<std::optional<std::string>> TestApplication::certificate_keys() const {
  const std::scoped_lock lock(mutex_);
  return keys_;
}

void TestApplication::failed(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  failures_.push_back(what);
}

std::vector<std::string> TestApplication::failures() const {
  const std::scoped_lock lock(mutex_);
  return failures_;
}

std::vector<ReplyHandle> TestApplication::handles() const {
  const std::scoped_lock lock(mutex_);
  return handles_;
}

std::shared_ptr<TlsContext> server_tls(const TlsIdentity& identity,
                                       const std::filesystem::path& client_ca_file) {
  return make_server_context({.certificate_file = identity.certificate_file,
                              .key_file = identity.key_file,
                              .client_ca_file = client_ca_file})
      .value();
}

ServerOf::ServerOf(ServerApplication& application, const TestServerOptions& options)
    : identity(options.identity ? *options.identity
                                : make_identity(directory.path(), "server", {})),
      listener(std::make_unique<Listener>(
          options.listener, server_tls(identity, options.client_ca_file), application)) {}

ClientLinkOptions ServerOf::client_options() const {
  return {.host = "127.0.0.1",
          .port = std::to_string(listener->port()),
          .tls = {.pin = identity.pin},
          .back_off = {.min = 1ms, .max = 20ms},
          .jitter_seed = 1};
}

std::unique_ptr<ClientLink> ServerOf::connect(ClientLinkOptions options) {
  auto link = ClientLink::open(std::move(options)).value();
  const auto event = link->wait_event(soon());
  EXPECT_TRUE(event && std::holds_alternative<Welcomed>(*event))
      << (event ? "unexpected event" : event.error().message);
  return link;
}

Result<ClientEvent> ServerOf::first_event(ClientLinkOptions options) {
  const auto link = ClientLink::open(std::move(options)).value();
  return link->wait_event(soon());
}

void TestServer::listen_again(std::uint16_t port) {
  const ListenerOptions options{.address = "127.0.0.1", .port = port};
  listener = std::make_unique<Listener>(options, server_tls(identity), application);
}

void TestServer::expect_serves() const {
  const auto link = connect();
  ASSERT_TRUE(link->send(outgoing(small_prompt())));
  const auto event = link->wait_event(soon());
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(std::get<VerdictReceived>(*event).verdict.next, 7u);
}

}  // namespace edgedraft
