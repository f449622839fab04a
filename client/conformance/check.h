#pragma once

#include <concepts>
#include <span>
#include <stdexcept>
#include <string>

namespace edgedraft::conformance {

class Subject;

// A server broke the protocol; the message says what it did.
class CheckFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A check does not apply to this server; the message says why.
class CheckSkipped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws CheckFailed unless `is_met`. `observed` makes its message.
template <std::invocable Observed>
void require(bool is_met, const Observed& observed) {
  if (!is_met) throw CheckFailed(observed());
}
inline void require(bool is_met, const char* observed) {
  if (!is_met) throw CheckFailed(observed);
}

struct Check {
  const char* name;
  const char* expected;   // the behaviour that the protocol demands
  void (*run)(Subject&);  // throws CheckFailed or CheckSkipped
};

// Checks by topic, in the order in which they run.
std::span<const Check> sign_in_checks();
std::span<const Check> request_checks();
std::span<const Check> draft_checks();
std::span<const Check> fault_checks();

}  // namespace edgedraft::conformance
