#include "server/program/application.h"

#include <utility>

#include "shared/protocol/constant_time.h"

namespace edgedraft::server {
namespace {

class ConnectionReplies final : public Replies {
 public:
  ConnectionReplies(ReplyHandle handle, std::shared_ptr<Metrics> metrics)
      : handle_(std::move(handle)), metrics_(std::move(metrics)) {}

  void verdict(wire::Verdict verdict) override {
    metrics_->activation_bytes.add(verdict.activations.size());
    handle_.verdict(std::move(verdict));
  }
  void activations(wire::Activations chunk) override {
    metrics_->activation_bytes.add(chunk.data.size());
    handle_.activations(std::move(chunk));
  }
  void run_activations(wire::Activations rows) override {
    metrics_->activation_bytes.add(rows.data.size());
    handle_.run_activations(std::move(rows));
  }
  void reading(std::uint32_t round) override { handle_.reading(round); }
  void refuse(std::uint32_t round, Error error) override {
    handle_.refuse(round, std::move(error));
  }
  bool full() const override { return handle_.full(); }
  bool full_of_chunks() const override {
    return handle_.chunk_backlog() >= ReplyHandle::kChunkBacklogFull;
  }

 private:
  ReplyHandle handle_;
  std::shared_ptr<Metrics> metrics_;
};

}  // namespace

Application::Application(ModelHost& host, Scheduler& scheduler, ApplicationOptions options,
                         spdlog::logger& log)
    : host_(host), scheduler_(scheduler), options_(std::move(options)), log_(log) {}

void Application::handle(const ReplyHandle& reply, const PeerInfo& peer, ServerEvent event) {
  if (const auto* hello = std::get_if<HelloReceived>(&event)) {
    on_hello(reply, peer, *hello);
    return;
  }
  if (const auto* cancelled = std::get_if<RoundCancelled>(&event)) {
    scheduler_.cancel(reply.connection_id(), cancelled->round);
    return;
  }
  if (auto* received = std::get_if<HintsReceived>(&event)) {
    scheduler_.hints(reply.connection_id(), std::move(received->hints));
    return;
  }
  const auto client = find_client(reply.connection_id());
  if (!client) {
    options_.metrics->rejected(Rejection::unauthorized);
    log_.warn("{} refused: {}", peer.address, client.error().message);
    reply.fail(client.error());
    return;
  }
  if (!*client) return;
  if (auto* prefill = std::get_if<PrefillRequested>(&event)) {
    scheduler_.post(**client, std::move(prefill->request));
  } else if (auto* resume = std::get_if<ResumeRequested>(&event)) {
    scheduler_.post(**client, std::move(resume->request));
  }
}

Result<std::optional<Client>> Application::find_client(std::uint64_t connection_id) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(connection_id);
  if (found == clients_.end()) return std::optional<Client>();
  if (const auto& tenants = options_.sign_in.tenants) {
    const auto tenant = tenants->find(found->second.identity, options_.wall_time());
    if (!tenant) return tenant.error();
    found->second.quota = tenant->quota;
  }
  return std::optional(found->second);
}

void Application::on_hello(const ReplyHandle& reply, const PeerInfo& peer,
                           const HelloReceived& event) {
  const std::string agent = event.hello.agent.empty() ? "" : " (" + event.hello.agent + ")";
  const auto client = admit(reply, peer, event);
  if (!client) {
    options_.metrics->rejected(client.error().code == Errc::unauthorized ? Rejection::unauthorized
                                                                         : Rejection::mismatch);
    log_.warn("{}{} refused: {}", peer.address, agent, client.error().message);
    reply.fail(client.error());
    return;
  }
  wire::Welcome welcome{.version = event.version,
                        .session = client->session,
                        .agent = options_.agent,
                        .model = host_.name(),
                        .context_count = host_.context_count(),
                        .nodes_max = kTreeNodesMax,
                        .scale_groups = {},
                        .pass_times = options_.pass_times,
                        .replica = options_.replica,
                        .arithmetic = options_.arithmetic,
                        .target = host_.target_fingerprint()};
  if (client->tap) {
    const auto groups = client->tap->scale_groups();
    welcome.scale_groups.assign(groups.begin(), groups.end());
    welcome.newest_row = client->newest_row;
  }
  std::string tenant;
  {
    const std::lock_guard lock(mutex_);
    clients_.emplace(reply.connection_id(), *client);
    if (options_.sign_in.tenants) tenant = " as tenant " + client->identity;
  }
  log_.info("{}{} signed in{} with {}", peer.address, agent, tenant,
            event.hello.drafter_name.empty() ? "no drafter" : event.hello.drafter_name);
  const HostedDrafter* drafter =
      event.hello.drafter ? host_.find_drafter(*event.hello.drafter) : nullptr;
  reply.accept(std::move(welcome), drafter != nullptr ? drafter->padded_row_bytes : 0);
}

Result<Client> Application::admit(const ReplyHandle& reply, const PeerInfo& peer,
                                  const HelloReceived& event) {
  const wire::Hello& hello = event.hello;
  Client client{.connection_id = reply.connection_id(),
                .reply = std::make_shared<ConnectionReplies>(reply, options_.metrics),
                .session = random_session_id(),
                .identity = {},
                .tap = nullptr,
                .codec = options_.compresses ? wire::Codec::gzip : wire::Codec::none,
                .newest_row = hello.newest_row};
  if (auto known = identify(peer, hello.token, client); !known) return known.error();
  const auto tap = host_.find_tap(hello);
  if (!tap) return tap.error();
  client.tap = *tap;
  return client;
}

void Application::set_sign_in(SignIn sign_in) {
  const std::lock_guard lock(mutex_);
  options_.sign_in = std::move(sign_in);
}

Result<void> Application::identify(const PeerInfo& peer, const std::string& token, Client& client) {
  const std::lock_guard lock(mutex_);
  const SignIn& secrets = options_.sign_in;
  if (token.empty() && (secrets.token || secrets.tenants)) {
    return Error{Errc::unauthorized,
                 "this server requires a token: give its file with --token-file"};
  }
  if (secrets.tenants) {
    const auto tenant = secrets.tenants->sign_in(token, options_.wall_time());
    if (!tenant) return tenant.error();
    client.identity = tenant->name;
    return {};
  }
  if (secrets.token && !equal_in_constant_time(as_byte_view(token), as_byte_view(*secrets.token))) {
    return Error{Errc::unauthorized, "wrong token: compare the --token-file of client and server"};
  }
  // Certificate names may be missing or equal; an unrequired token may have any value.
  client.identity =
      peer.certificate_key.value_or("") + '\n' + (secrets.token ? token : std::string());
  return {};
}

void Application::drained(std::uint64_t /*connection_id*/) {
  scheduler_.wake();
}

void Application::failed(const std::string& what) {
  log_.error("{}", what);
}

void Application::ended(std::uint64_t connection_id, const PeerInfo& peer, const Error& reason,
                        const TrafficStats& traffic) {
  {
    const std::lock_guard lock(mutex_);
    clients_.erase(connection_id);
  }
  scheduler_.ended(connection_id);
  options_.metrics->connection_ended(peer.secured, reason.code);
  log_.info("{} disconnected: {} ({} B in, {} B out)", peer.address, reason.message,
            traffic.framed_bytes_in, traffic.framed_bytes_out);
}

}  // namespace edgedraft::server
