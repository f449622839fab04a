#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "client/privacy/private_span.h"

namespace edgedraft::client {

// Finds private parts of a text by their form. Detection is a guess, and missed parts are sent:
// docs/privacy.md gives the rates.
//
// Threads   any
struct Detector {
  PrivateType type;
  // Appends spans of `text` as it stands; detected_in() first maps blanks, dashes and digits to
  // ASCII.
  // Requires  valid UTF-8
  std::function<void(std::string_view text, std::vector<PrivateSpan>& found)> find;
};

// Types that can be detected by form.
inline constexpr PrivateType kDetectedTypes[] = {PrivateType::mail,    PrivateType::phone,
                                                 PrivateType::card,    PrivateType::iban,
                                                 PrivateType::address, PrivateType::key};

// Returns detectors of mail addresses, telephone numbers, payment cards and IBANs (by check
// digits), postal and IP addresses, or keys of programs (by prefix or entropy).
std::vector<Detector> make_detectors(std::span<const PrivateType> types);

// Returns each detector's spans. `with_keys` includes keys of programs.
std::vector<PrivateSpan> detected_in(std::string_view text, std::span<const Detector> detectors,
                                     bool with_keys = true);

}  // namespace edgedraft::client
