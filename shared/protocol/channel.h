#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/protocol/frame.h"
#include "shared/protocol/message.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft {

// Block size and interval of one direction of a padded connection (docs/protocol.md, "Constant
// rate").
struct BlockRate {
  Duration tick{};          // between blocks
  std::uint32_t bytes = 0;  // per block, without TLS
  // Blocks are sent in multiples of this, which blurs the end of an answer.
  std::uint32_t together = 1;
};

// Schedules and fills the blocks of one direction. It handles bytes only: its owner appends frames
// and states whether more will follow.
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

inline constexpr std::size_t kFrameProgressBytes = 64u << 10;

struct ChannelOptions {
  Duration handshake_timeout = std::chrono::seconds(10);
  // Deadline for a whole frame. Restarts after every kFrameProgressBytes received, because long
  // prompts take longer than this over slow links.
  Duration frame_timeout = std::chrono::seconds(30);
  // Silence before a Ping, and between further Pings.
  Duration ping_interval = std::chrono::seconds(5);
  std::uint32_t unanswered_pings_max = 3;
  // Called with each frame, header included, as it leaves; may be empty.
  std::function<void(ByteView frame)> on_sent{};
};

struct TrafficStats {
  std::uint64_t framed_bytes_out = 0;  // frame headers included
  std::uint64_t framed_bytes_in = 0;
  std::uint64_t payload_bytes_out = 0;
  std::uint64_t payload_bytes_in = 0;
  std::uint64_t activation_bytes_raw = 0;   // quantised rows and scales before compression
  std::uint64_t activation_bytes_sent = 0;  // as sent over the link
  std::uint64_t pad_bytes_out = 0;          // pad frames, headers included
  std::uint64_t pad_bytes_in = 0;
  TrafficStats& operator+=(const TrafficStats& other);
};

// Part shared by ClientProtocol and ServerProtocol: frames in and out, their limits, liveness and
// counters. Answers Pings itself.
class Channel {
 public:
  Channel(const ChannelOptions& options, Instant now);

  void receive(Instant now, ByteView bytes);
  // Returns the next message other than Pong and a Ping that only tests the link. Call until it
  // returns nullopt. Errors    of FrameReader and wire::decode; protocol for a Ping too early. All
  // are fatal.
  Result<std::optional<wire::Message>> next_message();
  // `awaits`: a reply is outstanding, so a padded connection keeps sending.
  // Errors    timed_out
  Result<void> tick(Instant now, bool awaits);
  Instant next_deadline(bool awaits) const;

  // Ends the handshake: lifts its payload limit and deadline, and starts sending Pings.
  void open(std::uint32_t payload_bytes_max);

  // Sends output in blocks from now on, while the peer's blocks arrive and for `follow` longer.
  // Pings of an idle connection are sent unpadded.
  void pad(const BlockRate& rate, Duration follow);

  // Queues a message after pad frames of `pad_bytes` in total.
  void send(const wire::OutgoingMessage& message, std::uint64_t pad_bytes = 0);
  // Queues activations of `raw_bytes` before compression. send() has priority over them.
  void send_bulk(const wire::Activations& chunk, std::uint64_t raw_bytes,
                 std::uint64_t pad_bytes = 0);
  void drop_bulk();

  // Output may leave now.
  bool has_output() const;
  // Output is queued, perhaps until its block is due.
  bool holds_output() const { return pong_ || !urgent_.empty() || !bulk_.empty(); }
  // Further blocks are due later.
  bool paces_output() const { return rate_ && (rate_->running() || content_); }
  // Takes all urgent frames and one bulk frame, or one block.
  Bytes take_output();
  std::uint64_t urgent_bytes() const {
    return urgent_.size() + (rate_ ? rate_->waiting_bytes() : 0);
  }
  std::uint32_t bulk_count() const { return static_cast<std::uint32_t>(bulk_.size()); }
  // The last block did not hold all queued output.
  bool is_behind() const { return rate_ && rate_->is_behind(); }

  void count_activations(std::uint64_t raw_bytes, std::uint64_t sent_bytes);
  const TrafficStats& traffic() const { return traffic_; }

 private:
  struct Bulk {
    Bytes frame;
    std::uint64_t raw_bytes;
    std::uint64_t sent_bytes;
    std::uint64_t pad_bytes;
  };

  void append(ByteView frame, Bytes& to);
  void note_paced();
  Bytes take_urgent();
  void append_bulk(Bytes& to);
  bool has_more(bool awaits) const;
  Bytes take_block();
  void append_pad(std::size_t bytes, Bytes& to);
  void append_pads(std::uint64_t bytes, Bytes& to);

  ChannelOptions options_;
  FrameReader reader_;
  Bytes urgent_;
  // Reply to the newest Ping only, so a peer that pings without reading queues nothing.
  std::optional<wire::Pong> pong_;
  std::deque<Bulk> bulk_;
  TrafficStats traffic_;

  std::optional<ConstantRate> rate_;
  Duration follow_{};
  bool content_ = false;  // the output is more than Pings
  Instant now_;
  Instant paced_until_;  // extended by the peer's blocks

  bool open_ = false;
  Instant last_receive_;
  Instant handshake_deadline_;
  std::optional<Instant> frame_deadline_;
  std::size_t frame_bytes_ = 0;  // received when the deadline was set
  Instant next_ping_;
  std::uint32_t unanswered_pings_ = 0;
  bool ping_waits_ = false;  // the last Ping is still queued
  std::uint64_t ping_nonce_ = 0;
};

}  // namespace edgedraft
