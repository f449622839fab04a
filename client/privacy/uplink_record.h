#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/model/tokenizer.h"

namespace edgedraft::client {

// The latest messages that left the device, as they went into TLS, for the user to inspect.
//
// Threads   any
class UplinkRecord {
 public:
  static constexpr std::size_t kMessagesMax = 1024;
  static constexpr std::size_t kBytesMax = 4u << 20;

  // Adds a whole frame of a connection. Ignores messages without content: Pings, and padding.
  void add(std::uint64_t connection, ByteView frame);

  struct Message {
    std::uint64_t number;  // counted from 1, over all connections
    std::uint64_t connection;
    std::chrono::system_clock::time_point at;
    Bytes frame;
  };
  // Returns the messages after `number`, oldest first.
  std::vector<Message> since(std::uint64_t number) const;

 private:
  mutable std::mutex mutex_;
  std::deque<Message> messages_;
  std::size_t bytes_ = 0;
  std::uint64_t last_number_ = 0;
};

// Describes a message for people: kind, text if any, and bytes in hexadecimal. A Hello's bytes are
// omitted, because it may hold the bearer token.
nlohmann::ordered_json to_json(const UplinkRecord::Message& message, const Tokenizer& tokenizer);

}  // namespace edgedraft::client
