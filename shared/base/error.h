#pragma once

#include <boost/system/result.hpp>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

namespace edgedraft {

// Failures at an edge: a file, a peer, a user's option. Our own bugs are EDGEDRAFT_CHECKs.
enum class Errc {
  usage,            // invalid command line, environment or configuration file
  io,               // the operating system refused: missing file, permission, full disk, bind
  bad_file,         // a model file that is truncated, damaged or hostile
  unsupported,      // well-formed, but not supported by this build
  mismatch,         // target, tokenizer and drafter do not belong together
  context_full,     // more tokens than the context holds
  frame_truncated,  // fewer bytes than the frame needs: read more and try again
  frame_too_large,  // a length above the limit: close the connection
  bad_message,      // not a valid message: close the connection
  protocol,         // a valid message that is not allowed now or names impossible values
  version,          // the peers share no protocol version
  unauthorized,     // missing or wrong token
  untrusted,        // the certificate is not the pinned one, not signed by the CA, or expired
  refused,          // the server is full or shutting down: try again later
  session_unknown,  // the server has forgotten the session: refill it
  link_down,        // connecting failed, or the connection broke
  unknown_host,     // the name has no address
  timed_out,        // a deadline passed
  cancelled,        // the user asked to stop
};

// Name of the code in logs and JSON, e.g. "bad_file".
std::string_view to_string(Errc code);

// A failure and, if there is one, its remedy, as a sentence for the user.
struct Error {
  Errc code;
  std::string message;
};

inline Error usage_error(std::string message) {
  return {Errc::usage, std::move(message)};
}

inline Error bad_file(std::string message) {
  return {Errc::bad_file, std::move(message)};
}

// Puts the file's name before the message, unless the message already contains it.
Error in_file(const std::filesystem::path& path, Error error);

// A value or an Error. Test with `if (!r) return r.error();`.
template <class T>
using Result = boost::system::result<T, Error>;

// Carries an Error past code that cannot handle it, to main or to the end of a connection.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// Called by Result::value() on an error.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw Failure(error);
}

}  // namespace edgedraft
