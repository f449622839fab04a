#pragma once

#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"

namespace edgedraft {

// Blocks of one size at one pace: what an observer sees of one direction of a connection if both
// ends pad (docs/protocol.md, "Constant rate").
struct BlockRate {
  Duration tick{};          // from block to block
  std::uint32_t bytes = 0;  // of a block, without TLS
  // Blocks come in multiples of so many, so that an answer's end is told no better.
  std::uint32_t together = 1;
};

// When the next block of one direction is due, and what it is made of. Knows no messages: its owner
// feeds it frames and tells whether there is more to say.
class ConstantRate {
 public:
  explicit ConstantRate(const BlockRate& rate) : rate_(rate) {}

  // Begins, goes on or stops. `more`: something waits to be said, or an answer is being waited for.
  void tick(Instant now, bool more);
  // Instant::min() where it has to begin; Instant::max() where it rests.
  Instant next_deadline(bool more) const;
  bool running() const { return running_; }
  // A block is to be taken now.
  bool due() const { return due_; }

  // What did not fit into the blocks so far.
  std::uint64_t waiting_bytes() const { return waiting_.size(); }
  // A whole block of it.
  bool is_behind() const { return waiting_.size() >= rate_.bytes; }

  // Bytes that are missing from the next block.
  std::uint32_t room() const;
  void append(ByteView frame);
  // The block, of exactly rate.bytes. Requires  due(), !room()
  Bytes take_block();

 private:
  BlockRate rate_;
  bool running_ = false;
  bool due_ = false;
  Instant next_block_{};
  std::uint32_t count_ = 0;  // blocks since it began
  Bytes waiting_;
};

}  // namespace edgedraft
