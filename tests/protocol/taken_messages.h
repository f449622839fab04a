#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "shared/protocol/frame.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// The messages in a protocol half's pending output.
template <class Protocol>
std::vector<wire::Message> take_messages(Protocol& protocol) {
  FrameReader reader(kFramePayloadBytesMax);
  while (protocol.has_output()) reader.append(protocol.take_output());
  std::vector<wire::Message> messages;
  for (;;) {
    const auto frame = reader.next();
    if (!frame) {
      ADD_FAILURE() << frame.error().message;
      return messages;
    }
    if (!*frame) return messages;
    auto message = wire::decode((*frame)->kind, (*frame)->payload);
    if (!message) {
      ADD_FAILURE() << message.error().message;
      return messages;
    }
    messages.push_back(*std::move(message));
  }
}

}  // namespace edgedraft
