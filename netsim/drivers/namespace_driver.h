#pragma once

#include "netsim/drivers/drivers.h"
#include "netsim/drivers/link_process.h"
#include "netsim/drivers/namespaces.h"

namespace edgedraft::netsim {

// What the drivers with two namespaces have in common.
class NamespaceDriver : public LinkDriver {
 public:
  NamespaceDriver(const char* name, std::unique_ptr<LinkProcess> process, bool approximate)
      : name_(name), process_(std::move(process)), approximate_(approximate) {}

  std::string_view name() const override { return name_; }
  bool approximate() const override { return approximate_; }

  std::vector<std::string> at_server(std::vector<std::string> argv) const override {
    return process_->within(process_->namespaces().server_descriptor, argv);
  }
  std::vector<std::string> at_device(std::vector<std::string> argv) const override {
    return process_->within(process_->namespaces().device_descriptor, argv);
  }
  std::string server_listen() const override { return std::string(kServerAddress) + ":0"; }
  Result<std::string> device_target(std::uint16_t server_port) override {
    return kServerAddress + (":" + std::to_string(server_port));
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
  const char* name_;
  std::unique_ptr<LinkProcess> process_;
  bool approximate_;
};

}  // namespace edgedraft::netsim
