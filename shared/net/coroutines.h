#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "shared/base/clock.h"

// Shared by the coroutines of all connections, with and without TLS.
namespace edgedraft {

// Makes operations return errors as values.
inline constexpr auto kToken = boost::asio::as_tuple(boost::asio::use_awaitable);

// Time for the last output to arrive: closing at once would drop unread data.
inline constexpr Duration kFarewellTimeout = std::chrono::seconds(1);

}  // namespace edgedraft
