#pragma once

#include "netsim/drivers/link_driver.h"

namespace edgedraft::netsim {

// No emulated link: both ends use this machine's loopback, for trying an experiment and for arms'
// own speed. The profile is ignored, and events are refused.
class Loopback final : public LinkDriver {
 public:
  std::string_view name() const override { return "loopback"; }
  bool approximate() const override { return true; }
  std::vector<std::string> at_server(std::vector<std::string> argv) const override { return argv; }
  std::vector<std::string> at_device(std::vector<std::string> argv) const override { return argv; }
  std::string server_listen() const override { return "127.0.0.1:0"; }
  Result<std::string> device_target(std::uint16_t server_port) override {
    return "127.0.0.1:" + std::to_string(server_port);
  }
  Result<void> fire(const LinkEvent& /*event*/) override {
    return Error{Errc::unsupported, "--driver loopback has no link to take down"};
  }
  Result<LinkStatistics> statistics() const override { return LinkStatistics{}; }
};

}  // namespace edgedraft::netsim
