#include "netsim/drivers/drivers.h"
#include "netsim/drivers/link_process.h"
#include "netsim/drivers/proxy_relay.h"
#include "netsim/link/delay_law.h"

namespace edgedraft::netsim {
namespace {

class ProxyDriver : public LinkDriver {
 public:
  explicit ProxyDriver(std::unique_ptr<LinkProcess> process) : process_(std::move(process)) {}

  std::string_view name() const override { return "proxy"; }
  bool approximate() const override { return true; }

  std::vector<std::string> at_server(std::vector<std::string> argv) const override {
    return process_->marked(std::move(argv));
  }
  std::vector<std::string> at_device(std::vector<std::string> argv) const override {
    return process_->marked(std::move(argv));
  }
  std::string server_listen() const override { return "127.0.0.1:0"; }

  Result<std::string> device_target(std::uint16_t server_port) override {
    const auto reply = process_->ask({.kind = LinkRequest::Kind::listen, .port = server_port});
    if (!reply) return reply.error();
    return "127.0.0.1:" + std::to_string(reply->port);
  }
  Result<void> fire(const LinkEvent& event) override {
    const auto done = process_->ask({.kind = LinkRequest::Kind::fire, .event = event});
    if (!done) return done.error();
    return boost::system::in_place_value;
  }
  Result<LinkStatistics> statistics() const override {
    const auto reply = process_->ask({.kind = LinkRequest::Kind::statistics});
    if (!reply) return reply.error();
    return reply->statistics;
  }

 private:
  std::unique_ptr<LinkProcess> process_;
};

}  // namespace

Result<std::unique_ptr<LinkDriver>> make_proxy_link(const NetworkProfile& profile,
                                                    std::uint64_t seed) {
  auto process = LinkProcess::start([&](LinkChannel& channel) -> Result<void> {
    DuplexLink link(profile.up, profile.down, seed, Clock::now());
    ProxyRelay relay(link, mean_delay(profile.up) + mean_delay(profile.down));
    channel.reply(LinkReply{});
    relay.run(channel);
    return boost::system::in_place_value;
  });
  if (!process) return process.error();
  return std::unique_ptr<LinkDriver>(std::make_unique<ProxyDriver>(std::move(*process)));
}

}  // namespace edgedraft::netsim
