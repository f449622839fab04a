#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/privacy/detectors.h"
#include "client/privacy/local_texts.h"
#include "client/privacy/private_vault.h"

namespace edgedraft::client {

// Handling of private text (docs/privacy.md).
enum class PrivateMode : std::uint8_t {
  mask,    // placeholders are sent in its place
  local,   // a text with private parts is not sent: the device answers alone
  prefix,  // as local, but the part before the first private one is sent
  off,     // everything is sent as it is
};
// "mask", "local", "prefix" or "off".
PrivateMode private_mode_of(std::string_view word);

// Private values of one user's conversations. A copy learns independently, for a request that may
// still be refused. All copies share the texts that stay on the device.
//
// Threads   one at a time; copies may be used concurrently
class PrivacyGuard {
 public:
  struct Options {
    PrivateMode mode = PrivateMode::mask;  // default of requests
    std::vector<PrivateType> detects{};    // detected without a mark
    std::vector<std::string> names{};      // private from the start, at most the vault's kNamesMax
    bool refuses_detected = false;         // refuses unmarked private text instead of masking it
    bool shows_types = true;               // "[MAIL_001]", else "[TEXT_001]"
  };
  explicit PrivacyGuard(const Options& options);
  PrivacyGuard(const PrivacyGuard& other)
      : mode_(other.mode_),
        refuses_detected_(other.refuses_detected_),
        shows_types_(other.shows_types_),
        detectors_(other.detectors_),
        vault_(other.vault_.detached()),
        local_texts_(other.local_texts_) {}
  PrivacyGuard(PrivacyGuard&&) = default;
  PrivacyGuard& operator=(const PrivacyGuard&) = delete;

  PrivateMode mode() const { return mode_; }
  bool refuses_detected() const { return refuses_detected_; }
  bool shows_types() const { return shows_types_; }
  std::span<const Detector> detectors() const { return *detectors_; }
  PrivateVault& vault() { return vault_; }
  LocalTexts& local_texts() { return *local_texts_; }
  // Adds the values that a copy has learned.
  void learn_from(const PrivacyGuard& copy) { vault_.add_all(copy.vault_); }
  // True if a text holds a known value, a detected one (unless the mode is off), or repeats a text
  // that stayed here. `asked` is the conversation's own mode, if any.
  bool finds(std::string_view text, std::optional<PrivateMode> asked = std::nullopt) const;

 private:
  PrivateMode mode_;
  bool refuses_detected_;
  bool shows_types_;
  std::shared_ptr<const std::vector<Detector>> detectors_;
  PrivateVault vault_;
  std::shared_ptr<LocalTexts> local_texts_;
};

}  // namespace edgedraft::client
