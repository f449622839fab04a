#pragma once

#include <exception>
#include <string>

namespace edgedraft {

// Message of a caught exception, for logs.
inline std::string what_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace edgedraft
