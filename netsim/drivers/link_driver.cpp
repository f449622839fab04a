#include "netsim/drivers/link_driver.h"

#include <iostream>

#include "netsim/drivers/process_driver.h"

namespace edgedraft::netsim {
namespace {

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
    return Error{Errc::unsupported,
                 "--driver loopback cannot take a link down; give tun, tc or proxy"};
  }
  Result<LinkStatistics> statistics() const override { return LinkStatistics{}; }
};

}  // namespace

Result<std::unique_ptr<LinkDriver>> make_link(const NetworkProfile& profile,
                                              std::string_view driver, std::uint64_t seed) {
  if (driver == "tc") return make_tc_link(profile);
  if (driver == "tun") return make_tun_link(profile, seed);
  if (driver == "proxy") return make_proxy_link(profile, seed);
  if (driver == "loopback") return std::unique_ptr<LinkDriver>(std::make_unique<Loopback>());
  if (driver != "auto") {
    return Error{Errc::usage,
                 "unknown driver '" + std::string(driver) + "'; give one of auto, tc, tun, proxy"};
  }
  auto tun = make_tun_link(profile, seed);
  if (tun || tun.error().code != Errc::unsupported) return tun;
  std::cerr << "tun: " << tun.error().message
            << "; using the proxy instead, which is approximate\n";
  return make_proxy_link(profile, seed);
}

}  // namespace edgedraft::netsim
