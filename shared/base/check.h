#pragma once

#include <boost/assert/source_location.hpp>  // clang 14 lacks the standard one
#include <string_view>

namespace edgedraft {

// Prints the condition and its location, then aborts. Never returns.
[[noreturn]] void check_failed(std::string_view condition, const boost::source_location& where);

}  // namespace edgedraft

// Checks our own invariants, in every build. Bytes from a file, a peer or a user get a Result
// instead (shared/base/error.h).
#define EDGEDRAFT_CHECK(condition)                     \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::edgedraft::check_failed(#condition, BOOST_CURRENT_LOCATION))
