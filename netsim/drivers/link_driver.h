#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "netsim/link/events.h"
#include "netsim/link/statistics.h"
#include "netsim/profile.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// One emulated link, up from creation to destruction. It lives in a process of its own that ends,
// with everything it made and every process in its namespaces, when this object goes or when the
// process that made it dies, however it dies.
//
// Threads  one call at a time may be under way; others wait
class LinkDriver {
 public:
  virtual ~LinkDriver() = default;

  virtual std::string_view name() const = 0;  // "tc", "tun" or "proxy"
  // Whether the link is not quite the profile's: the proxy relays a TCP stream and only imitates
  // packets, and netem draws a delay a packet where the profile holds one (hold_ms).
  virtual bool approximate() const = 0;

  // The command line that runs `argv` at that end of the link, in the process that calls exec: its
  // id, signals and exit status are the program's own.
  virtual std::vector<std::string> at_server(std::vector<std::string> argv) const = 0;
  virtual std::vector<std::string> at_device(std::vector<std::string> argv) const = 0;

  // HOST:PORT that a server at its end should listen on; port 0, so that it says which it took.
  virtual std::string server_listen() const = 0;
  // HOST:PORT that the device connects to when the server listens on `server_port`.
  virtual Result<std::string> device_target(std::uint16_t server_port) = 0;

  // A scripted event now; its `at` is for the caller. A `down` with a duration ends by itself.
  virtual Result<void> fire(const LinkEvent& event) = 0;

  virtual Result<LinkStatistics> statistics() const = 0;

 protected:
  LinkDriver() = default;
  LinkDriver(const LinkDriver&) = delete;
  LinkDriver& operator=(const LinkDriver&) = delete;
};

enum class DriverKind { automatic, tc, tun, proxy };

// "auto", "tc", "tun", "proxy".
std::string_view to_string(DriverKind kind);
Result<DriverKind> driver_kind_from(std::string_view name);

// Builds the link. The profile's events are the caller's to fire. `automatic` takes tun where
// namespaces and /dev/net/tun are to be had, else the proxy.
//
// Errors   unsupported   the machine lacks what the driver needs, or the driver what the profile
//                        asks for; the message names the remedy
Result<std::unique_ptr<LinkDriver>> make_link(const NetworkProfile& profile, DriverKind kind,
                                              std::uint64_t seed);

}  // namespace edgedraft::netsim
