#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "client/privacy/private_span.h"

namespace edgedraft::client {

// Finds private parts of a text by their form. Detection is a guess, and missed parts are sent:
// docs/privacy.md gives the rates.
//
// Threads   const calls from any
class Detector {
 public:
  virtual ~Detector() = default;
  virtual PrivateType type() const = 0;
  // Appends spans of the unmodified `text`; detected_in() first maps blanks, dashes and digits to
  // ASCII.
  // Requires  valid UTF-8
  virtual void find(std::string_view text, std::vector<PrivateSpan>& found) const = 0;
};

// Types that can be detected by form.
inline constexpr PrivateType kDetectedTypes[] = {PrivateType::mail,    PrivateType::phone,
                                                 PrivateType::card,    PrivateType::iban,
                                                 PrivateType::address, PrivateType::key};

// Returns the detectors of one type. Payment cards and IBANs are found by check digits, keys of
// programs by prefix or entropy.
std::vector<std::unique_ptr<Detector>> make_detectors(std::span<const PrivateType> types);

// Returns each detector's spans. `with_keys` includes keys of programs.
std::vector<PrivateSpan> detected_in(std::string_view text,
                                     std::span<const std::unique_ptr<Detector>> detectors,
                                     bool with_keys = true);

}  // namespace edgedraft::client
