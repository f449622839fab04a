#include "client/privacy/privacy_guard.h"

#include <algorithm>

#include "client/privacy/unescaped_text.h"
#include "shared/base/check.h"

namespace edgedraft::client {

PrivateMode private_mode_of(std::string_view word) {
  if (word == "local") return PrivateMode::local;
  if (word == "prefix") return PrivateMode::prefix;
  return word == "off" ? PrivateMode::off : PrivateMode::mask;
}

PrivacyGuard::PrivacyGuard(const Options& options)
    : mode_(options.mode),
      refuses_detected_(options.refuses_detected),
      shows_types_(options.shows_types),
      detectors_(std::make_shared<const std::vector<Detector>>(make_detectors(options.detects))),
      local_texts_(std::make_shared<LocalTexts>()) {
  for (const std::string& name : options.names) EDGEDRAFT_CHECK(vault_.add_name(name));
}

bool PrivacyGuard::finds(std::string_view text, std::optional<PrivateMode> asked) const {
  const bool looks = asked.value_or(mode_) != PrivateMode::off;
  if (!vault_.find(text).empty()) return true;
  if (!looks) return false;
  const auto detects = [this](std::string_view one) {
    return !detected_in(one, *detectors_).empty();
  };
  return detects(text) || local_texts_->recognises(text) ||
         std::ranges::any_of(unescaped_texts(text), detects, &UnescapedText::text);
}

}  // namespace edgedraft::client
