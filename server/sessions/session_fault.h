#pragma once

#include <boost/assert/source_location.hpp>  // clang 14 lacks std::source_location
#include <stdexcept>
#include <string>

namespace edgedraft::server {

// Inconsistent state of one session. Clients control the order of requests, so a peer may cause it:
// PassLoop drops the session and refuses its request; the process continues.
class SessionFault : public std::logic_error {
 public:
  SessionFault(const char* condition, const boost::source_location& where)
      : std::logic_error(std::string(where.file_name()) + ':' + std::to_string(where.line()) +
                         ": broken invariant: " + condition) {}
};

}  // namespace edgedraft::server

// EDGEDRAFT_CHECK for per-session state: throws SessionFault.
#define EDGEDRAFT_SESSION_CHECK(condition) \
  (static_cast<bool>(condition)            \
       ? static_cast<void>(0)              \
       : throw ::edgedraft::server::SessionFault(#condition, BOOST_CURRENT_LOCATION))
