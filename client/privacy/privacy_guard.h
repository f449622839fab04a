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

namespace edgedraft {

// What becomes of private text (docs/privacy.md).
enum class PrivateMode : std::uint8_t {
  mask,    // placeholders go up in its place
  local,   // nothing of a text that holds some goes up: the device answers alone
  prefix,  // the same, but what stands before the first of it goes up
  off,     // everything goes up as it is
};
// "mask", "local", "prefix" or "off".
PrivateMode private_mode_of(std::string_view word);

// What the device knows to be private, for all conversations of one user. A copy learns by itself,
// as for a request that may be refused yet; texts that stay on the device are common to all copies.
//
// Threads   one at a time; copies may be used by others at the same time
class PrivacyGuard {
 public:
  struct Options {
    PrivateMode mode = PrivateMode::mask;  // where a request does not say
    std::vector<PrivateType> detects{};    // what is looked for without a mark
    std::vector<std::string> names{};      // private from the start, kNamesMax of the vault's
    bool refuses_detected = false;         // rather than masking what nobody marked
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
  std::span<const std::unique_ptr<Detector>> detectors() const { return *detectors_; }
  PrivateVault& vault() { return vault_; }
  LocalTexts& local_texts() { return *local_texts_; }
  // Takes in what a copy has learned.
  void learn_from(const PrivacyGuard& copy) { vault_.add_all(copy.vault_); }
  // Whether a text holds a value that is known or, unless all goes up anyway, that a detector
  // finds, or repeats what stayed here. `asked` is its conversation's mode, where that has its own.
  bool finds(std::string_view text, std::optional<PrivateMode> asked = std::nullopt) const;

 private:
  PrivateMode mode_;
  bool refuses_detected_;
  bool shows_types_;
  std::shared_ptr<const std::vector<std::unique_ptr<Detector>>> detectors_;
  PrivateVault vault_;
  std::shared_ptr<LocalTexts> local_texts_;
};

}  // namespace edgedraft
