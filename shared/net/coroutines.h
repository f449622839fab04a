#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "shared/base/clock.h"

// What the coroutines of all connections share, with TLS and without.
namespace edgedraft {

// Operations give their errors as values.
inline constexpr auto kToken = boost::asio::as_tuple(boost::asio::use_awaitable);

// For the last words to arrive: closing at once would make the kernel drop what is not read yet.
inline constexpr Duration kFarewellTimeout = std::chrono::seconds(1);

}  // namespace edgedraft
