#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "netsim/link/duplex_link.h"
#include "netsim/link/options.h"
#include "netsim/profile.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// One emulated link, up from construction to destruction. It runs in its own process, which ends
// when this object is destroyed or its creator dies for any reason. Everything it created, and
// every process in its namespaces, ends with it.
//
// Threads  one call runs at a time; others wait
class LinkDriver {
 public:
  virtual ~LinkDriver() = default;

  virtual std::string_view name() const = 0;  // the driver, never "auto"
  // True if the link differs from the profile. The proxy relays a TCP stream and only imitates
  // packets. netem draws a delay per packet even if the profile holds one (hold_ms).
  virtual bool approximate() const = 0;

  // Command line that runs `argv` at that end of the link, in the process that calls exec. Process
  // id, signals and exit status are the program's own.
  virtual std::vector<std::string> at_server(std::vector<std::string> argv) const = 0;
  virtual std::vector<std::string> at_device(std::vector<std::string> argv) const = 0;

  // HOST:PORT for a server at its end to listen on; port 0, so that the server reports its port.
  virtual std::string server_listen() const = 0;
  // HOST:PORT for the device if the server listens on `server_port`.
  virtual Result<std::string> device_target(std::uint16_t server_port) = 0;

  // Fires an event now, ignoring its `at`. A `down` with a duration ends by itself.
  virtual Result<void> fire(const LinkEvent& event) = 0;

  virtual Result<LinkStatistics> statistics() const = 0;

 protected:
  LinkDriver() = default;
  LinkDriver(const LinkDriver&) = delete;
  LinkDriver& operator=(const LinkDriver&) = delete;
};

// Builds the link. The caller fires the profile's events. `driver` is tc, tun, proxy or auto: tun
// if namespaces and /dev/net/tun are available, else the proxy. "loopback" builds no link: both
// ends use this machine's loopback, to try out an experiment or to time arms without a link. It
// ignores the profile and refuses events.
//
// Errors   usage         unknown driver
//          unsupported   the machine lacks what the driver needs, or the driver lacks a feature of
//                        the profile; the message names the remedy
Result<std::unique_ptr<LinkDriver>> make_link(const NetworkProfile& profile,
                                              std::string_view driver, std::uint64_t seed);

}  // namespace edgedraft::netsim
