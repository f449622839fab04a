#include "shared/protocol/channel.h"

#include <algorithm>

namespace edgedraft {

TrafficStats& TrafficStats::operator+=(const TrafficStats& other) {
  frames_out += other.frames_out;
  frames_in += other.frames_in;
  framed_bytes_out += other.framed_bytes_out;
  framed_bytes_in += other.framed_bytes_in;
  payload_bytes_out += other.payload_bytes_out;
  payload_bytes_in += other.payload_bytes_in;
  activation_bytes_raw += other.activation_bytes_raw;
  activation_bytes_sent += other.activation_bytes_sent;
  padding_bytes += other.padding_bytes;
  return *this;
}

Channel::Channel(const ChannelOptions& options, Instant now)
    : options_(options),
      reader_(kHandshakePayloadBytesMax),
      last_receive_(now),
      handshake_deadline_(now + options.handshake_timeout),
      next_ping_(now + options.ping_interval) {}

void Channel::receive(Instant now, ByteView bytes) {
  reader_.append(bytes);
  last_receive_ = now;
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
    ++traffic_.frames_in;
    traffic_.framed_bytes_in += kFrameHeaderBytes + payload.size();
    traffic_.payload_bytes_in += payload.size();

    Result<wire::Message> message = wire::decode((*frame)->kind, payload);
    if (!message) return message.error();
    const auto* ping = std::get_if<wire::Ping>(&*message);
    if (!ping && !std::holds_alternative<wire::Pong>(*message)) {
      return std::optional<wire::Message>(std::move(*message));
    }
    if (!open_) return Error{Errc::protocol, "the peer sent a ping before the sign-in was over"};
    if (ping) send(wire::Pong{ping->nonce});
  }
  if (!reader_.within_frame()) {
    frame_deadline_.reset();
  } else if (!frame_deadline_) {
    frame_deadline_ = last_receive_ + options_.frame_timeout;
  }
  return std::optional<wire::Message>();
}

Result<void> Channel::tick(Instant now) {
  if (!open_ && now >= handshake_deadline_) {
    return Error{Errc::timed_out, "the peer did not finish the sign-in in time"};
  }
  if (frame_deadline_ && now >= *frame_deadline_) {
    return Error{Errc::timed_out, "the peer did not finish a frame in time"};
  }
  if (open_ && now >= next_ping_) {
    if (unanswered_pings_ >= options_.unanswered_pings_max) {
      return Error{Errc::timed_out, "the peer gives no sign of life"};
    }
    send(wire::Ping{++ping_nonce_});
    ++unanswered_pings_;
    next_ping_ = now + options_.ping_interval;
  }
  return boost::system::in_place_value;
}

Instant Channel::next_deadline() const {
  const Instant deadline = open_ ? next_ping_ : handshake_deadline_;
  return frame_deadline_ ? std::min(deadline, *frame_deadline_) : deadline;
}

void Channel::open(std::uint32_t payload_bytes_max) {
  open_ = true;
  reader_.set_payload_bytes_max(payload_bytes_max);
}

void Channel::send(const wire::OutgoingMessage& message) {
  append(wire::encode(message), urgent_);
}

void Channel::send_bulk(const wire::Activations& chunk, std::uint64_t raw_bytes) {
  bulk_.push_back({wire::encode(chunk), raw_bytes, chunk.data.size()});
  bulk_bytes_ += bulk_.back().frame.size();
}

void Channel::drop_bulk() {
  bulk_.clear();
  bulk_bytes_ = 0;
}

Bytes Channel::take_output() {
  Bytes output = std::exchange(urgent_, {});
  if (!bulk_.empty()) {
    const Bulk& bulk = bulk_.front();
    bulk_bytes_ -= bulk.frame.size();
    append(bulk.frame, output);
    count_activations(bulk.raw_bytes, bulk.sent_bytes);
    bulk_.pop_front();
  }
  return output;
}

void Channel::count_activations(std::uint64_t raw_bytes, std::uint64_t sent_bytes) {
  traffic_.activation_bytes_raw += raw_bytes;
  traffic_.activation_bytes_sent += sent_bytes;
}

void Channel::append(ByteView frame, Bytes& to) {
  ++traffic_.frames_out;
  traffic_.framed_bytes_out += frame.size();
  traffic_.payload_bytes_out += frame.size() - kFrameHeaderBytes;
  to.insert(to.end(), frame.begin(), frame.end());
}

}  // namespace edgedraft
