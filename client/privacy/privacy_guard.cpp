#include "client/privacy/privacy_guard.h"

#include "client/privacy/unescaped_text.h"
#include "shared/base/check.h"

namespace edgedraft {

PrivateMode private_mode_of(std::string_view word) {
  if (word == "local") return PrivateMode::local;
  if (word == "prefix") return PrivateMode::prefix;
  return word == "off" ? PrivateMode::off : PrivateMode::mask;
}

PrivacyGuard::PrivacyGuard(const Options& options)
    : mode_(options.mode),
      refuses_detected_(options.refuses_detected),
      shows_types_(options.shows_types),
      detectors_(std::make_shared<const std::vector<std::unique_ptr<Detector>>>(
          make_detectors(options.detects))),
      vault_(std::make_shared<PrivateVault>()),
      local_texts_(std::make_shared<LocalTexts>()) {
  for (const std::string& name : options.names) EDGEDRAFT_CHECK(vault_->add_name(name));
}

PrivateVault& PrivacyGuard::vault() {
  if (vault_.use_count() > 1) vault_ = std::make_shared<PrivateVault>(*vault_);
  return *vault_;
}

void PrivacyGuard::learn_from(const PrivacyGuard& copy) {
  if (copy.vault_ != vault_) vault().add_all(*copy.vault_);
}

bool PrivacyGuard::finds(std::string_view text, std::optional<PrivateMode> asked) const {
  const bool looks = asked.value_or(mode_) != PrivateMode::off;
  std::vector<PrivateSpan> found = vault_->find(text);
  if (looks) {
    const auto readings = unescaped_texts(text);
    for (const auto& detector : *detectors_) {
      detector->find(text, found);
      for (const UnescapedText& reading : readings) detector->find(reading.text, found);
    }
  }
  return !found.empty() || (looks && local_texts_->recognises(text));
}

}  // namespace edgedraft
