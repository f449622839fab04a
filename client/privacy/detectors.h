#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "client/privacy/private_span.h"

namespace edgedraft {

// Finds what of a text is private by its form. What it finds is a guess, and what it misses goes
// out: docs/privacy.md says how much that is.
//
// Threads   constant
class Detector {
 public:
  virtual ~Detector() = default;
  virtual PrivateType type() const = 0;
  // Appends what it finds as it is written: detected_in() reads blanks, dashes and digits of all
  // kinds as those of ASCII. Requires  valid UTF-8
  virtual void find(std::string_view text, std::vector<PrivateSpan>& found) const = 0;
};

// Types that have a form.
inline constexpr PrivateType kDetectedTypes[] = {PrivateType::mail,    PrivateType::phone,
                                                 PrivateType::card,    PrivateType::iban,
                                                 PrivateType::address, PrivateType::key};

// What looks for mail addresses, telephone numbers, payment cards (by their check digit), IBANs (by
// theirs), postal and IP addresses, or keys of programs (by prefix, or by entropy).
std::vector<std::unique_ptr<Detector>> make_detectors(std::span<const PrivateType> types);

// What they find in a text, each for itself. `with_keys`: keys of programs among it.
std::vector<PrivateSpan> detected_in(std::string_view text,
                                     std::span<const std::unique_ptr<Detector>> detectors,
                                     bool with_keys = true);

}  // namespace edgedraft
