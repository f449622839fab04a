#pragma once

#include <boost/assert/source_location.hpp>  // clang 14 lacks the standard one
#include <stdexcept>
#include <string>

namespace edgedraft {

// What the server holds of one session contradicts itself. Clients decide in which order sessions
// are asked for what, so such a fault may be a peer's doing: it costs that session, never the
// process. PassLoop forgets the session and refuses its request.
class SessionFault : public std::logic_error {
 public:
  SessionFault(const char* condition, const boost::source_location& where)
      : std::logic_error(std::string(where.file_name()) + ':' + std::to_string(where.line()) +
                         ": not so: " + condition) {}
};

}  // namespace edgedraft

// EDGEDRAFT_CHECK about what belongs to one session: throws SessionFault.
#define EDGEDRAFT_SESSION_CHECK(condition) \
  (static_cast<bool>(condition)            \
       ? static_cast<void>(0)              \
       : throw ::edgedraft::SessionFault(#condition, BOOST_CURRENT_LOCATION))
