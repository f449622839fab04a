#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace edgedraft {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
// The endpoints of a host and a port; each is a name or a number.
using NameResolver = std::function<Endpoints(const std::string& host, const std::string& port,
                                             boost::system::error_code& error)>;

// As the system does it, which may take half a minute where the network is gone.
Endpoints resolve_by_system(const std::string& host, const std::string& port,
                            boost::system::error_code& error);

// A number is what it is. A name: asks `resolver` in a thread of its own and waits for it, or until
// the wait is cancelled or the executor's context goes: nothing can interrupt the system's
// resolver, so that thread is left to itself then.
//
// Requires  an executor that does one thing at a time
boost::asio::awaitable<std::pair<boost::system::error_code, Endpoints>> look_up(
    NameResolver resolver, std::string host, std::string port);

}  // namespace edgedraft
