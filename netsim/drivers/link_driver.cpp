#include "netsim/drivers/link_driver.h"

#include <iostream>

#include "netsim/drivers/drivers.h"

namespace edgedraft::netsim {
namespace {

constexpr std::pair<DriverKind, std::string_view> kKinds[] = {
    {DriverKind::automatic, "auto"},
    {DriverKind::tc, "tc"},
    {DriverKind::tun, "tun"},
    {DriverKind::proxy, "proxy"},
};

}  // namespace

std::string_view to_string(DriverKind kind) {
  for (const auto& [known, name] : kKinds) {
    if (known == kind) return name;
  }
  return "?";
}

Result<DriverKind> driver_kind_from(std::string_view name) {
  for (const auto& [kind, known] : kKinds) {
    if (known == name) return kind;
  }
  return Error{Errc::usage,
               "unknown driver '" + std::string(name) + "'; give one of auto, tc, tun, proxy"};
}

Result<std::unique_ptr<LinkDriver>> make_link(const NetworkProfile& profile, DriverKind kind,
                                              std::uint64_t seed) {
  switch (kind) {
    case DriverKind::tc:
      return make_tc_link(profile);
    case DriverKind::tun:
      return make_tun_link(profile, seed);
    case DriverKind::proxy:
      return make_proxy_link(profile, seed);
    case DriverKind::automatic:
      break;
  }
  auto tun = make_tun_link(profile, seed);
  if (tun || tun.error().code != Errc::unsupported) return tun;
  std::cerr << "tun: " << tun.error().message
            << "; using the proxy instead, which is approximate\n";
  return make_proxy_link(profile, seed);
}

}  // namespace edgedraft::netsim
