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

namespace edgedraft {

// What left the device last, message by message as it went into TLS. Its user can look.
//
// Threads   any
class UplinkRecord {
 public:
  static constexpr std::size_t kMessagesMax = 1024;
  static constexpr std::size_t kBytesMax = 4u << 20;

  // A whole frame of the connection with that number. What says nothing is left out: Pings, and
  // what fills padded blocks.
  void add(std::uint64_t connection, ByteView frame);

  struct Message {
    std::uint64_t number;  // counted from 1, of all connections
    std::uint64_t connection;
    std::chrono::system_clock::time_point at;
    Bytes frame;
  };
  // Those behind `number`, oldest first.
  std::vector<Message> since(std::uint64_t number) const;

 private:
  mutable std::mutex mutex_;
  std::deque<Message> messages_;
  std::size_t bytes_ = 0;
  std::uint64_t last_number_ = 0;
};

// A message for people: what it is, its text where it has some, and its bytes in hexadecimal, but
// for a Hello, which may hold the token that signs in.
nlohmann::ordered_json to_json(const UplinkRecord::Message& message, const Tokenizer& tokenizer);

}  // namespace edgedraft
