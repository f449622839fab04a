#include "client/privacy/uplink_record.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/protocol/frame.h"
#include "shared/protocol/message.h"

namespace edgedraft::client {
namespace {

std::uint16_t kind_of(ByteView frame) {
  return decode_frame_header(frame.first(kFrameHeaderBytes), kFramePayloadBytesMax).value().kind;
}

// Tokens of a message; empty if it has none.
std::vector<std::uint32_t> tokens_of(const wire::Message& message) {
  if (const auto* prefill = std::get_if<wire::Prefill>(&message)) return prefill->tokens;
  if (const auto* resume = std::get_if<wire::Resume>(&message)) return resume->tokens;
  std::vector<std::uint32_t> tokens;
  if (const auto* hints = std::get_if<wire::Hints>(&message)) {
    for (const HintNode& node : hints->nodes) tokens.push_back(node.token);
  }
  return tokens;
}

const Constraints* constraints_of(const wire::Message& message) {
  if (const auto* prefill = std::get_if<wire::Prefill>(&message)) return &prefill->constraints;
  if (const auto* resume = std::get_if<wire::Resume>(&message)) return &resume->constraints;
  return nullptr;
}

}  // namespace

void UplinkRecord::add(std::uint64_t connection, ByteView frame) {
  const auto kind = static_cast<wire::Kind>(kind_of(frame));
  if (kind == wire::Kind::ping || kind == wire::Kind::pong || kind == wire::Kind::pad) return;
  const std::scoped_lock lock(mutex_);
  messages_.push_back({.number = ++last_number_,
                       .connection = connection,
                       .at = std::chrono::system_clock::now(),
                       .frame = {frame.begin(), frame.end()}});
  bytes_ += frame.size();
  while (messages_.size() > kMessagesMax || (bytes_ > kBytesMax && messages_.size() > 1)) {
    bytes_ -= messages_.front().frame.size();
    messages_.pop_front();
  }
}

std::vector<UplinkRecord::Message> UplinkRecord::since(std::uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto first = std::ranges::find_if(
      messages_, [number](const Message& message) { return message.number > number; });
  return {first, messages_.end()};
}

nlohmann::ordered_json to_json(const UplinkRecord::Message& message, const Tokenizer& tokenizer) {
  const auto kind = static_cast<wire::Kind>(kind_of(message.frame));
  const auto at =
      std::chrono::duration_cast<std::chrono::milliseconds>(message.at.time_since_epoch());
  nlohmann::ordered_json json = {{"number", message.number},
                                 {"connection", message.connection},
                                 {"unix_ms", at.count()},
                                 {"kind", wire::to_string(kind)},
                                 {"bytes", message.frame.size()}};
  if (kind == wire::Kind::hello) return json;
  json["hex"] = to_hex(message.frame);
  const auto decoded = wire::decode(static_cast<std::uint16_t>(kind),
                                    ByteView(message.frame).subspan(kFrameHeaderBytes));
  if (!decoded) return json;
  const auto tokens = tokens_of(*decoded);
  const bool known = std::ranges::all_of(
      tokens, [&](std::uint32_t token) { return token < tokenizer.vocabulary_count(); });
  if (!tokens.empty() && known) json["text"] = decode(tokenizer, tokens, LeadingSpace::keep);
  if (const Constraints* const constraints = constraints_of(*decoded)) {
    if (!constraints->stops.empty()) json["stop"] = constraints->stops;
    if (!constraints->grammar.empty()) json["grammar"] = constraints->grammar;
  }
  return json;
}

}  // namespace edgedraft::client
