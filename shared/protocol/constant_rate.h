#pragma once

#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"

namespace edgedraft {

// Block size and interval of one direction of a padded connection (docs/protocol.md, "Constant
// rate").
struct BlockRate {
  Duration tick{};          // between blocks
  std::uint32_t bytes = 0;  // per block, without TLS
  // Blocks are sent in multiples of this, which blurs the end of an answer.
  std::uint32_t together = 1;
};

// Schedules and fills the blocks of one direction. It knows no messages: its owner feeds it frames
// and says whether more will follow.
class ConstantRate {
 public:
  explicit ConstantRate(const BlockRate& rate) : rate_(rate) {}

  // Starts, continues or stops. `more`: output is queued or a reply is outstanding.
  void tick(Instant now, bool more);
  // Instant::min() if it has to start; Instant::max() if it is idle.
  Instant next_deadline(bool more) const;
  bool running() const { return running_; }
  // A block is due now.
  bool due() const { return due_; }

  // Queued bytes that did not fit into past blocks.
  std::uint64_t waiting_bytes() const { return waiting_.size(); }
  // At least one whole block is queued.
  bool is_behind() const { return waiting_.size() >= rate_.bytes; }

  // Bytes missing from the next block.
  std::uint32_t room() const;
  void append(ByteView frame);
  // The next block, exactly rate.bytes long. Requires  due(), !room()
  Bytes take_block();

 private:
  BlockRate rate_;
  bool running_ = false;
  bool due_ = false;
  Instant next_block_{};
  std::uint32_t count_ = 0;  // blocks since the start
  Bytes waiting_;
};

}  // namespace edgedraft
