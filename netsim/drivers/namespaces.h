#pragma once

#include <string>

#include "netsim/drivers/stray_processes.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// Addresses inside a link come from 198.18.0.0/15, reserved for benchmarks (RFC 2544).
inline constexpr const char* kServerAddress = "198.18.0.1";
inline constexpr int kPrefixBits = 15;
inline constexpr const char* kLinkNetwork = "198.18.0.0/15";
inline constexpr const char* kInterface = "edgedraft0";
// The device's `number`-th address, from 0: 198.18.0.2, 198.18.0.3, ...
std::string device_address(unsigned number);

// Creates two network namespaces with loopback up, and leaves the calling process in the device's.
// For users other than root it first enters a new user namespace.
//
// Requires  a single-threaded process that runs nothing but the link
//
// Errors   unsupported   the kernel refuses; the message names the setting
Result<LinkNamespaces> make_namespaces();

// Moves the calling process into one of them.
Result<void> enter_namespace(int descriptor);

// In the process's current namespace: creates the TUN device kInterface and returns its descriptor,
// non-blocking, one IPv4 packet per read.
//
// Errors   unsupported   no /dev/net/tun, or no permission
Result<int> make_tun_device();

// In the process's current namespace: replaces the interface's address and brings it up.
Result<void> set_address(const std::string& interface, const std::string& address);
Result<void> set_up(const std::string& interface);

// Sets the route over kInterface in the process's namespace, so that TCP over it uses the
// congestion control `name`. No other namespace is affected.
//
// Requires  the interface is up and has `address`
//
// Errors   usage   the kernel lacks it
Result<void> set_congestion_control(const std::string& address, const std::string& name);
// Error for a congestion control that the kernel lacks.
Error no_congestion_control(const std::string& name);

}  // namespace edgedraft::netsim
