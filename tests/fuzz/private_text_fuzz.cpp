#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/privacy/private_marks.h"
#include "client/privacy/request_mask.h"
#include "client/privacy/restored_text.h"
#include "shared/model/utf8.h"

namespace {

constexpr std::string_view kPrivate = "Zebulon Quixote";
constexpr edgedraft::client::PrivateType kDetected[] = {
    edgedraft::client::PrivateType::mail,    edgedraft::client::PrivateType::phone,
    edgedraft::client::PrivateType::card,    edgedraft::client::PrivateType::iban,
    edgedraft::client::PrivateType::address, edgedraft::client::PrivateType::key};

}  // namespace

// A private value never leaks, whatever text surrounds it. Text from a hostile target is restored
// to the same result in pieces as in one call.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  using namespace edgedraft::client;
  const std::string text(reinterpret_cast<const char*>(data), size);
  PrivacyGuard guard({.detects = {std::begin(kDetected), std::end(kDetected)}});
  RequestMask mask(guard, PrivateMode::mask);
  mask.learn(kPrivate, true);
  mask.learn(text, false);
  if (!mask.check()) return 0;
  mask.apply(kPrivate, true);
  const std::string masked = mask.apply(text, false);
  const auto outcome = mask.outcome();
  if (!outcome) return 0;
  if (masked.find(kPrivate) != std::string::npos) std::abort();
  std::string plain;
  for (const MarkedPart& part : split_marks(text)) plain += part.text;
  if (plain.size() > text.size()) std::abort();

  for (const bool in_json : {false, true}) {
    const std::string whole = restored(text, *outcome->placeholders, in_json);
    RestoredText pieces(*outcome->placeholders, in_json);
    std::string shown;
    for (std::size_t at = 0; at < text.size(); at += 3) {
      const auto piece = pieces.push(std::string_view(text).substr(at, 3));
      if (piece.revise_from) std::abort();
      shown += piece.text;
    }
    shown += pieces.finish().text;
    if (shown != whole || pieces.text() != whole) std::abort();
    pieces.revise(utf8_count(text) / 2);
    pieces.finish();
  }
  return 0;
}
