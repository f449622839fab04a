#include "shared/protocol/channel.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

void ConstantRate::tick(Instant now, bool more) {
  if (!running_) {
    if (!more) return;
    running_ = true;
    count_ = 0;
    next_block_ = now;
  }
  if (due_ || now < next_block_) return;
  const bool said_all = !more && waiting_.empty() && count_ % rate_.together == 0;
  if (said_all) {
    running_ = false;
    return;
  }
  due_ = true;
  ++count_;
  // Skip blocks that the socket did not take in time.
  next_block_ = std::max(next_block_ + rate_.tick, now);
}

Instant ConstantRate::next_deadline(bool more) const {
  if (!running_) return more ? Instant::min() : Instant::max();
  return due_ ? Instant::max() : next_block_;
}

std::uint32_t ConstantRate::room() const {
  return waiting_.size() < rate_.bytes ? rate_.bytes - static_cast<std::uint32_t>(waiting_.size())
                                       : 0;
}

void ConstantRate::append(ByteView frame) {
  waiting_.insert(waiting_.end(), frame.begin(), frame.end());
}

Bytes ConstantRate::take_block() {
  EDGEDRAFT_CHECK(due_ && room() == 0);
  due_ = false;
  Bytes block(waiting_.begin(), waiting_.begin() + rate_.bytes);
  waiting_.erase(waiting_.begin(), waiting_.begin() + rate_.bytes);
  return block;
}

TrafficStats& TrafficStats::operator+=(const TrafficStats& other) {
  framed_bytes_out += other.framed_bytes_out;
  framed_bytes_in += other.framed_bytes_in;
  payload_bytes_out += other.payload_bytes_out;
  payload_bytes_in += other.payload_bytes_in;
  activation_bytes_raw += other.activation_bytes_raw;
  activation_bytes_sent += other.activation_bytes_sent;
  pad_bytes_out += other.pad_bytes_out;
  pad_bytes_in += other.pad_bytes_in;
  return *this;
}

Channel::Channel(const ChannelOptions& options, Instant now)
    : options_(options),
      reader_(kHandshakePayloadBytesMax),
      now_(now),
      paced_until_(now),
      last_receive_(now),
      handshake_deadline_(now + options.handshake_timeout),
      next_ping_(now + options.ping_interval) {}

void Channel::receive(Instant now, ByteView bytes) {
  reader_.append(bytes);
  last_receive_ = now_ = now;
  next_ping_ = now + options_.ping_interval;
  unanswered_pings_ = 0;
}

Result<std::optional<wire::Message>> Channel::next_message() {
  for (;;) {
    Result<std::optional<Frame>> frame = reader_.next();
    if (!frame) return frame.error();
    if (!*frame) break;
    frame_deadline_.reset();
    const Bytes& payload = (*frame)->payload;
    traffic_.framed_bytes_in += kFrameHeaderBytes + payload.size();
    traffic_.payload_bytes_in += payload.size();
    if ((*frame)->kind == static_cast<std::uint16_t>(wire::Kind::pad)) {
      if (!open_)
        return Error{Errc::protocol, "the peer sent padding before the sign-in was complete"};
      traffic_.pad_bytes_in += kFrameHeaderBytes + payload.size();
      note_paced();
      continue;
    }

    Result<wire::Message> message = wire::decode((*frame)->kind, payload);
    if (!message) return message.error();
    const auto* ping = std::get_if<wire::Ping>(&*message);
    if (!ping && !std::holds_alternative<wire::Pong>(*message)) {
      note_paced();
      return std::optional<wire::Message>(std::move(*message));
    }
    if (!open_)
      return Error{Errc::protocol, "the peer sent a ping before the sign-in was complete"};
    if (!ping) continue;
    pong_ = wire::Pong{ping->nonce};
    if (ping->reading > 0) return std::optional<wire::Message>(std::move(*message));
  }
  if (reader_.partial_bytes() == 0) {
    frame_deadline_.reset();
  } else {
    note_paced();
    const std::size_t bytes = reader_.partial_bytes();
    if (!frame_deadline_ || bytes - frame_bytes_ >= kFrameProgressBytes) {
      frame_deadline_ = last_receive_ + options_.frame_timeout;
      frame_bytes_ = bytes;
    }
  }
  return std::optional<wire::Message>();
}

Result<void> Channel::tick(Instant now, bool awaits) {
  now_ = now;
  if (rate_) rate_->tick(now, has_more(awaits));
  if (!open_ && now >= handshake_deadline_) {
    return Error{Errc::timed_out, "the peer did not finish the sign-in in time"};
  }
  if (frame_deadline_ && now >= *frame_deadline_) {
    return Error{Errc::timed_out, "the peer did not finish a frame in time"};
  }
  if (open_ && now >= next_ping_) {
    next_ping_ = now + options_.ping_interval;
    // A Ping queued after a large message has not reached the peer yet, so silence means nothing. A
    // stalled write is detected elsewhere and ends the connection.
    if (ping_waits_) return boost::system::in_place_value;
    if (unanswered_pings_ >= options_.unanswered_pings_max) {
      return Error{Errc::timed_out, "the peer does not respond"};
    }
    send(wire::Ping{++ping_nonce_});
    ping_waits_ = true;
    ++unanswered_pings_;
  }
  return boost::system::in_place_value;
}

Instant Channel::next_deadline(bool awaits) const {
  Instant deadline = open_ ? next_ping_ : handshake_deadline_;
  if (rate_) deadline = std::min(deadline, rate_->next_deadline(has_more(awaits)));
  return frame_deadline_ ? std::min(deadline, *frame_deadline_) : deadline;
}

void Channel::open(std::uint32_t payload_bytes_max) {
  open_ = true;
  reader_.set_payload_bytes_max(payload_bytes_max);
}

void Channel::pad(const BlockRate& rate, Duration follow) {
  rate_.emplace(rate);
  follow_ = follow;
}

bool Channel::has_more(bool awaits) const {
  return awaits || content_ || now_ < paced_until_;
}

// Notes that part of a block arrived.
void Channel::note_paced() {
  paced_until_ = last_receive_ + follow_;
}

void Channel::send(const wire::OutgoingMessage& message, std::uint64_t pad_bytes) {
  const bool idle_talk =
      std::holds_alternative<wire::Ping>(message) || std::holds_alternative<wire::Close>(message);
  content_ = rate_ && (content_ || !idle_talk);
  append_pads(pad_bytes, urgent_);
  append(wire::encode(message), urgent_);
}

void Channel::send_bulk(const wire::Activations& chunk, std::uint64_t raw_bytes,
                        std::uint64_t pad_bytes) {
  bulk_.push_back({wire::encode(chunk), raw_bytes, chunk.data.size(), pad_bytes});
  content_ = rate_.has_value();
}

void Channel::drop_bulk() {
  bulk_.clear();
}

bool Channel::has_output() const {
  if (!rate_) return holds_output();
  return rate_->running() ? rate_->due() : (pong_ || !urgent_.empty()) && !content_;
}

Bytes Channel::take_output() {
  if (rate_ && rate_->running()) return take_block();
  Bytes output = take_urgent();
  if (!bulk_.empty()) append_bulk(output);
  return output;
}

Bytes Channel::take_urgent() {
  Bytes frames = std::exchange(urgent_, {});
  ping_waits_ = false;
  if (pong_) append(wire::encode(*std::exchange(pong_, std::nullopt)), frames);
  return frames;
}

void Channel::append_bulk(Bytes& to) {
  const Bulk& bulk = bulk_.front();
  append_pads(bulk.pad_bytes, to);
  append(bulk.frame, to);
  count_activations(bulk.raw_bytes, bulk.sent_bytes);
  bulk_.pop_front();
}

Bytes Channel::take_block() {
  Bytes next = take_urgent();
  const std::size_t room = rate_->room();
  while (next.size() < room && !bulk_.empty()) append_bulk(next);
  content_ = !bulk_.empty();
  if (next.size() < room) append_pad(room - next.size(), next);
  rate_->append(next);
  return rate_->take_block();
}

// Appends at least `bytes` of padding; if a frame header does not fit, the frame ends in the next
// block.
void Channel::append_pad(std::size_t bytes, Bytes& to) {
  Bytes frame(std::max(bytes, kFrameHeaderBytes));
  encode_frame_header(
      {.kind = static_cast<std::uint16_t>(wire::Kind::pad),
       .payload_bytes = static_cast<std::uint32_t>(frame.size() - kFrameHeaderBytes)},
      std::span(frame).first<kFrameHeaderBytes>());
  traffic_.pad_bytes_out += frame.size();
  append(frame, to);
}

void Channel::append_pads(std::uint64_t bytes, Bytes& to) {
  for (std::uint64_t left = bytes; left > 0;) {
    const std::uint64_t part = std::min<std::uint64_t>(left, kHandshakePayloadBytesMax);
    append_pad(part, to);
    left -= part;
  }
}

void Channel::count_activations(std::uint64_t raw_bytes, std::uint64_t sent_bytes) {
  traffic_.activation_bytes_raw += raw_bytes;
  traffic_.activation_bytes_sent += sent_bytes;
}

void Channel::append(ByteView frame, Bytes& to) {
  traffic_.framed_bytes_out += frame.size();
  traffic_.payload_bytes_out += frame.size() - kFrameHeaderBytes;
  to.insert(to.end(), frame.begin(), frame.end());
  if (options_.on_sent) options_.on_sent(frame);
}

}  // namespace edgedraft
