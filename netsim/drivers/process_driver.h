#pragma once

#include "netsim/drivers/link_driver.h"
#include "netsim/drivers/link_process.h"
#include "netsim/drivers/namespaces.h"

namespace edgedraft::netsim {

// A link in its own process, between two namespaces if that process created any.
class ProcessDriver final : public LinkDriver {
 public:
  // `body` as for LinkProcess::start.
  static Result<std::unique_ptr<LinkDriver>> start(
      const char* name, bool approximate, const std::function<Result<void>(LinkChannel&)>& body) {
    auto process = LinkProcess::start(body);
    if (!process) return process.error();
    return std::unique_ptr<LinkDriver>(new ProcessDriver(name, std::move(*process), approximate));
  }

  std::string_view name() const override { return name_; }
  bool approximate() const override { return approximate_; }

  std::vector<std::string> at_server(std::vector<std::string> argv) const override {
    return process_->at_end(process_->namespaces().server_descriptor, argv);
  }
  std::vector<std::string> at_device(std::vector<std::string> argv) const override {
    return process_->at_end(process_->namespaces().device_descriptor, argv);
  }
  std::string server_listen() const override {
    return std::string(has_namespaces() ? kServerAddress : kLoopback) + ":0";
  }
  Result<std::string> device_target(std::uint16_t server_port) override {
    if (has_namespaces()) return kServerAddress + (":" + std::to_string(server_port));
    const auto reply = process_->ask({.kind = LinkRequest::Kind::listen, .port = server_port});
    if (!reply) return reply.error();
    return kLoopback + (":" + std::to_string(reply->port));
  }

  Result<void> fire(const LinkEvent& event) override {
    const auto done = process_->ask({.kind = LinkRequest::Kind::fire, .event = event});
    if (!done) return done.error();
    return {};
  }
  Result<LinkStatistics> statistics() const override {
    const auto reply = process_->ask({.kind = LinkRequest::Kind::statistics});
    if (!reply) return reply.error();
    return reply->statistics;
  }

 private:
  static constexpr const char* kLoopback = "127.0.0.1";

  ProcessDriver(const char* name, std::unique_ptr<LinkProcess> process, bool approximate)
      : name_(name), process_(std::move(process)), approximate_(approximate) {}

  bool has_namespaces() const { return process_->namespaces().server_descriptor >= 0; }

  const char* name_;
  std::unique_ptr<LinkProcess> process_;
  bool approximate_;
};

// Two network namespaces with a TUN device each and the link model between them.
Result<std::unique_ptr<LinkDriver>> make_tun_link(const NetworkProfile& profile,
                                                  std::uint64_t seed);

// Two network namespaces joined by a veth pair, with the kernel's netem at both ends. The kernel
// draws its own random values: no seed.
Result<std::unique_ptr<LinkDriver>> make_tc_link(const NetworkProfile& profile);

// A relay of TCP connections on loopback. The link model schedules deliveries; a lost packet
// arrives a round trip later, as if TCP had retransmitted it.
Result<std::unique_ptr<LinkDriver>> make_proxy_link(const NetworkProfile& profile,
                                                    std::uint64_t seed);

}  // namespace edgedraft::netsim
