#include "netsim/run/probe.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <thread>

#include "shared/base/clock.h"
#include "shared/program/endpoint.h"

namespace edgedraft::netsim {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::ip::udp;
using boost::system::error_code;

constexpr std::size_t kPayloadBytes = 1400;
constexpr std::size_t kPacketBytes = kPayloadBytes + 28;  // with UDP and IPv4 headers
constexpr double kTrainSeconds = 0.5;
// Faster than the link, so that the link spaces the packets.
constexpr double kTrainExcess = 1.25;
// Minimum train length: half of the packets may be lost and still give a rate.
constexpr std::uint32_t kTrainPacketsMin = 80;
constexpr std::size_t kArrivalsMin = 20;
constexpr std::uint32_t kTrainPacketsMax = 4000;
// Silence that ends a train, in addition to the time of its packets.
constexpr double kSilenceSeconds = 0.7;
constexpr double kSilencePackets = 5;
// Covers a round trip and a busy end.
constexpr double kTrainStartSeconds = 5;
constexpr double kAnswerSeconds = 30;
// A client may be silent for minutes while it measures a slow link.
constexpr double kClientSilenceSeconds = 600;
constexpr std::uint64_t kStreamBytesMin = 64u << 10;
constexpr std::uint64_t kStreamBytesMax = 8u << 20;

void set_timeout(int socket, double in_seconds) {
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(in_seconds);
  limit.tv_usec = static_cast<suseconds_t>((in_seconds - static_cast<double>(limit.tv_sec)) * 1e6);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// Asio's receive ignores a socket's timeout.
ssize_t receive(int socket, std::span<char> to) {
  return ::recv(socket, to.data(), to.size(), 0);
}

std::uint32_t train_packets(std::uint64_t bits_per_second) {
  const double count =
      static_cast<double>(bits_per_second) * kTrainSeconds / 8 / static_cast<double>(kPacketBytes);
  return static_cast<std::uint32_t>(
      std::clamp(count, double{kTrainPacketsMin}, double{kTrainPacketsMax}));
}

// Transmission time of a train's packet.
double packet_seconds(std::uint64_t bits_per_second) {
  return 8.0 * static_cast<double>(kPacketBytes) / static_cast<double>(bits_per_second);
}

double silence_seconds(std::uint64_t bits_per_second) {
  return std::max(kSilenceSeconds, kSilencePackets * packet_seconds(bits_per_second));
}

std::uint64_t stream_bytes(std::uint64_t bits_per_second) {
  return std::clamp(bits_per_second / 8, kStreamBytesMin, kStreamBytesMax);
}

// Time to measure the rate of one direction.
double way_seconds(std::uint64_t bits_per_second, bool stream) {
  if (bits_per_second == 0) return 0;
  if (stream) {
    return 8.0 * static_cast<double>(stream_bytes(bits_per_second)) /
           static_cast<double>(bits_per_second);
  }
  return train_packets(bits_per_second) * packet_seconds(bits_per_second) +
         silence_seconds(bits_per_second);
}

void send_train(int socket, const sockaddr* to, socklen_t size, std::uint32_t packets,
                std::uint64_t bits_per_second) {
  const std::array<char, kPayloadBytes> payload{};
  const double spacing = packet_seconds(bits_per_second) / kTrainExcess;
  const Instant start = Clock::now();
  for (std::uint32_t i = 0; i < packets; ++i) {
    std::this_thread::sleep_until(start + from_seconds(spacing * i));
    ::sendto(socket, payload.data(), payload.size(), 0, to, size);
  }
}

// Measures the rate of an incoming train; 0 if too few packets arrive. `bits_per_second` is the
// link's nominal rate. Ends after a silence. The first and last tenth are ignored: there a packet's
// own delay outweighs its place in the train.
double receive_train(int socket, std::uint64_t bits_per_second) {
  std::array<char, 2048> buffer;
  std::vector<Instant> arrivals;
  const double silence = silence_seconds(bits_per_second);
  set_timeout(socket, kTrainStartSeconds + silence);
  for (ssize_t size = 0; (size = receive(socket, buffer)) > 0;) {
    // Ignores shorter packets, which are left over from requests for the other direction's train.
    if (size != static_cast<ssize_t>(kPayloadBytes)) continue;
    arrivals.push_back(Clock::now());
    if (arrivals.size() == 1) set_timeout(socket, silence);
  }
  if (arrivals.size() < kArrivalsMin) return 0;
  const std::size_t first = arrivals.size() / 10;
  const std::size_t last = arrivals.size() - 1 - first;
  const double elapsed = seconds(arrivals[last] - arrivals[first]);
  if (elapsed <= 0) return 0;
  return 8.0 * static_cast<double>(kPacketBytes) * static_cast<double>(last - first) / elapsed;
}

// A line of the control connection; empty after its end.
std::optional<std::string> read_line(int socket) {
  std::string line;
  char c = 0;
  while (receive(socket, std::span(&c, 1)) == 1) {
    if (c == '\n') return line;
    if (line.size() == 200) return std::nullopt;
    line += c;
  }
  return std::nullopt;
}

bool write_text(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool write_bytes(int socket, std::uint64_t count) {
  const std::string block(16384, '\0');
  for (; count > 0; count -= std::min<std::uint64_t>(count, block.size())) {
    if (!write_text(socket, std::string_view(block).substr(
                                0, std::min<std::uint64_t>(count, block.size())))) {
      return false;
    }
  }
  return true;
}

// Bits per second from the stream's first bytes to the moment in its second half with the highest
// average. After a lost segment, later data waits and then arrives at once. The received count lags
// during this wait and has then caught up.
double read_bytes(int socket, std::uint64_t count) {
  std::array<char, 16384> buffer;
  std::uint64_t taken = 0;
  std::uint64_t counted_from = 0;
  Instant start{};
  double best = 0;
  while (taken < count) {
    const ssize_t got = receive(
        socket, std::span(buffer).first(std::min<std::uint64_t>(count - taken, buffer.size())));
    if (got <= 0) return 0;
    taken += static_cast<std::uint64_t>(got);
    const Instant now = Clock::now();
    if (start == Instant{}) {
      start = now;
      counted_from = taken;
    }
    const double elapsed = seconds(now - start);
    if (taken < count / 2 || elapsed <= 0) continue;
    best = std::max(best, 8.0 * static_cast<double>(taken - counted_from) / elapsed);
  }
  return best;
}

// "WORD NUMBER NUMBER"
struct Command {
  std::string word;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

Command parse(const std::string& line) {
  Command command;
  std::istringstream(line) >> command.word >> command.first >> command.second;
  return command;
}

void serve_client(int control, int datagrams) {
  set_timeout(control, kClientSilenceSeconds);
  while (const auto line = read_line(control)) {
    const Command command = parse(*line);
    if (command.word == "PING") {
      if (!write_text(control, "PONG\n")) return;
    } else if (command.word == "DOWN") {
      if (!write_bytes(control, std::min(command.first, kStreamBytesMax))) return;
    } else if (command.word == "UP") {
      const double rate = read_bytes(control, std::min(command.first, kStreamBytesMax));
      if (!write_text(control, "GOT " + std::to_string(static_cast<std::uint64_t>(rate)) + '\n')) {
        return;
      }
    } else if (command.word == "TRAIN_UP") {
      if (!write_text(control, "GO\n")) return;
      const double rate = receive_train(datagrams, std::max<std::uint64_t>(command.first, 1));
      if (!write_text(control, "GOT " + std::to_string(static_cast<std::uint64_t>(rate)) + '\n')) {
        return;
      }
    } else if (command.word == "TRAIN_DOWN") {
      // The client's first datagram reveals its address, also through a relay.
      set_timeout(datagrams, kTrainStartSeconds);
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      char byte = 0;
      if (::recvfrom(datagrams, &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &size) <= 0) {
        continue;
      }
      send_train(
          datagrams, reinterpret_cast<sockaddr*>(&from), size,
          static_cast<std::uint32_t>(std::min<std::uint64_t>(command.first, kTrainPacketsMax)),
          std::max<std::uint64_t>(command.second, 1));
    } else {
      return;
    }
  }
}

// Ends of a link are addresses: network namespaces resolve no names.
Result<tcp::endpoint> address_of(const std::string& text, EndpointUse use) {
  const auto endpoint = parse_endpoint(text, use);
  if (!endpoint) return endpoint.error();
  error_code error;
  const auto address = asio::ip::make_address(endpoint->host, error);
  if (error) return Error{Errc::usage, "'" + text + "': give an address, not a name"};
  return tcp::endpoint(address, endpoint->port);
}

Error broken(const std::string& what) {
  return {Errc::link_down, "link probe failed: " + what};
}

double rate_of(const std::optional<std::string>& line) {
  return line ? static_cast<double>(parse(*line).first) : 0.0;
}

}  // namespace

Result<void> serve_probe(const std::string& listen) {
  const auto endpoint = address_of(listen, EndpointUse::listen);
  if (!endpoint) return endpoint.error();
  asio::io_context io;
  tcp::acceptor acceptor(io, *endpoint);
  const tcp::endpoint bound = acceptor.local_endpoint();
  udp::socket datagrams(io, udp::endpoint(bound.address(), bound.port()));
  std::cout << "ready " << bound << std::endl;
  for (;;) {
    tcp::socket control = acceptor.accept();
    control.set_option(tcp::no_delay(true));
    serve_client(control.native_handle(), datagrams.native_handle());
  }
}

double probe_seconds(const ProbeOptions& options, double ping_seconds) {
  return options.pings * ping_seconds + way_seconds(options.up_bits_per_second, options.stream) +
         way_seconds(options.down_bits_per_second, options.stream);
}

Result<ProbeResult> run_probe(const ProbeOptions& options) {
  const auto endpoint = address_of(options.server, EndpointUse::connect);
  if (!endpoint) return endpoint.error();
  asio::io_context io;
  tcp::socket control(io);
  error_code error;
  control.connect(*endpoint, error);
  if (error) return broken(error.message());
  control.set_option(tcp::no_delay(true));
  const int socket = control.native_handle();
  set_timeout(socket, kAnswerSeconds);

  ProbeResult result;
  for (std::uint32_t i = 0; i < options.pings; ++i) {
    const Instant sent = Clock::now();
    if (!write_text(socket, "PING\n") || !read_line(socket)) return broken("a ping was lost");
    result.round_trips_ms.push_back(1000 * seconds(Clock::now() - sent));
  }
  udp::socket datagrams(io, udp::endpoint(endpoint->address().is_v4() ? udp::v4() : udp::v6(), 0));
  const udp::endpoint peer(endpoint->address(), endpoint->port());
  if (options.down_bits_per_second > 0) {
    if (options.stream) {
      const std::uint64_t bytes = stream_bytes(options.down_bits_per_second);
      if (!write_text(socket, "DOWN " + std::to_string(bytes) + '\n')) {
        return broken("the TCP stream broke off");
      }
      result.down_bits_per_second = read_bytes(socket, bytes);
    } else {
      const std::string packets = std::to_string(train_packets(options.down_bits_per_second));
      if (!write_text(socket, "TRAIN_DOWN " + packets + ' ' +
                                  std::to_string(options.down_bits_per_second) + '\n')) {
        return broken("the packet train was not started");
      }
      // Three times, since one may be lost.
      for (int i = 0; i < 3; ++i) datagrams.send_to(asio::buffer("x", 1), peer, 0, error);
      result.down_bits_per_second =
          receive_train(datagrams.native_handle(), options.down_bits_per_second);
    }
  }
  if (options.up_bits_per_second > 0) {
    // Sent packets may wait at the link for this long.
    set_timeout(socket, kAnswerSeconds + way_seconds(options.up_bits_per_second, options.stream));
    if (options.stream) {
      const std::uint64_t bytes = stream_bytes(options.up_bits_per_second);
      if (!write_text(socket, "UP " + std::to_string(bytes) + '\n') ||
          !write_bytes(socket, bytes)) {
        return broken("the TCP stream broke off");
      }
    } else {
      if (!write_text(socket, "TRAIN_UP " + std::to_string(options.up_bits_per_second) + '\n') ||
          !read_line(socket)) {
        return broken("the packet train was not started");
      }
      send_train(datagrams.native_handle(), static_cast<const sockaddr*>(peer.data()),
                 static_cast<socklen_t>(peer.size()), train_packets(options.up_bits_per_second),
                 options.up_bits_per_second);
    }
    result.up_bits_per_second = rate_of(read_line(socket));
  }
  return result;
}

}  // namespace edgedraft::netsim
