#pragma once

#include <boost/assert/source_location.hpp>  // clang 14 lacks the standard one
#include <string_view>

namespace edgedraft {

// Prints what broke and where, then aborts. Never returns.
[[noreturn]] void check_failed(std::string_view condition, const boost::source_location& where);

}  // namespace edgedraft

// For our own broken invariants, in every build. Never for bytes from a file, a peer or a user:
// those get a Result (shared/base/error.h).
#define EDGEDRAFT_CHECK(condition)                     \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::edgedraft::check_failed(#condition, BOOST_CURRENT_LOCATION))
