#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace edgedraft {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
// Endpoints of a host and a port; each is a name or a number.
using NameResolver = std::function<Endpoints(const std::string& host, const std::string& port,
                                             boost::system::error_code& error)>;

// Uses the system's resolver, which may take half a minute without a network.
Endpoints resolve_by_system(const std::string& host, const std::string& port,
                            boost::system::error_code& error);

// Returns numeric addresses at once. For a name, runs `resolver` in a thread and waits until the
// wait is cancelled or the executor's context is destroyed. The system's resolver cannot be
// interrupted, so the thread is then left to finish alone.
//
// Requires  an executor that runs one handler at a time
boost::asio::awaitable<std::pair<boost::system::error_code, Endpoints>> look_up(
    NameResolver resolver, std::string host, std::string port);

}  // namespace edgedraft
