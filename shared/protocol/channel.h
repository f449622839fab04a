#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "shared/base/clock.h"
#include "shared/protocol/constant_rate.h"
#include "shared/protocol/frame.h"
#include "shared/protocol/message.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft {

inline constexpr std::size_t kFrameProgressBytes = 64u << 10;

struct ChannelOptions {
  Duration handshake_timeout = std::chrono::seconds(10);
  // From a frame's first byte to its last, and anew for each kFrameProgressBytes that come of it:
  // long prompts take longer than this over slow links.
  Duration frame_timeout = std::chrono::seconds(30);
  // Silence after which a Ping is sent, and again after each further such time.
  Duration ping_interval = std::chrono::seconds(5);
  std::uint32_t unanswered_pings_max = 3;
  // Told of each frame, header included, when it leaves; may be empty.
  std::function<void(ByteView frame)> on_sent{};
};

struct TrafficStats {
  std::uint64_t framed_bytes_out = 0;  // frame headers included
  std::uint64_t framed_bytes_in = 0;
  std::uint64_t payload_bytes_out = 0;
  std::uint64_t payload_bytes_in = 0;
  std::uint64_t activation_bytes_raw = 0;   // quantised rows and scales before compression
  std::uint64_t activation_bytes_sent = 0;  // the same as they crossed the link
  std::uint64_t pad_bytes_out = 0;          // pad frames, header included
  std::uint64_t pad_bytes_in = 0;
  TrafficStats& operator+=(const TrafficStats& other);
};

// What both sessions are built on: frames in and out, their limits, liveness and counters. Answers
// Pings by itself.
class Channel {
 public:
  Channel(const ChannelOptions& options, Instant now);

  void receive(Instant now, ByteView bytes);
  // The next whole message that is not a Ping or Pong. Call until there is none.
  // Errors    of FrameReader and wire::decode; protocol for a Ping too early. All are final.
  Result<std::optional<wire::Message>> next_message();
  // `awaits`: an answer is being waited for, so that a padded connection keeps its pace.
  // Errors    timed_out
  Result<void> tick(Instant now, bool awaits);
  Instant next_deadline(bool awaits) const;

  // Ends the handshake: its limits, its deadline, and the silence about Pings.
  void open(std::uint32_t payload_bytes_max);

  // From now on what is said leaves in blocks, and so it goes on as long as the other side's blocks
  // come and for `follow` longer. Pings of a connection at rest leave as they are.
  void pad(const BlockRate& rate, Duration follow);

  // After pad frames of `pad_bytes` together.
  void send(const wire::OutgoingMessage& message, std::uint64_t pad_bytes = 0);
  // Activations of `raw_bytes` before compression. They wait behind everything that send() gets.
  void send_bulk(const wire::Activations& chunk, std::uint64_t raw_bytes,
                 std::uint64_t pad_bytes = 0);
  void drop_bulk();

  // Something may leave now.
  bool has_output() const;
  // Something waits, and may have to wait for its block.
  bool holds_output() const { return pong_ || !urgent_.empty() || !bulk_.empty(); }
  // More blocks are to come.
  bool paces_output() const { return rate_ && (rate_->running() || content_); }
  // All urgent frames and one bulk frame; or a block.
  Bytes take_output();
  std::uint64_t urgent_bytes() const {
    return urgent_.size() + (rate_ ? rate_->waiting_bytes() : 0);
  }
  std::uint32_t bulk_count() const { return static_cast<std::uint32_t>(bulk_.size()); }
  // What was taken did not hold all that was said before.
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
  // To the newest Ping: a peer that pings and does not read piles up nothing.
  std::optional<wire::Pong> pong_;
  std::deque<Bulk> bulk_;
  TrafficStats traffic_;

  std::optional<ConstantRate> rate_;
  Duration follow_{};
  bool content_ = false;  // more than Pings waits
  Instant now_;
  Instant paced_until_;  // by what the other side has said

  bool open_ = false;
  Instant last_receive_;
  Instant handshake_deadline_;
  std::optional<Instant> frame_deadline_;
  std::size_t frame_bytes_ = 0;  // that had come when it was set
  Instant next_ping_;
  std::uint32_t unanswered_pings_ = 0;
  bool ping_waits_ = false;  // the last one has not left
  std::uint64_t ping_nonce_ = 0;
};

}  // namespace edgedraft
