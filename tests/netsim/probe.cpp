// Measures a link from its ends. Needs only the C library, so that it also runs as a static program
// in an initramfs. Each result is one line on standard output. Servers first print "ready PORT".
//
//   probe echo PORT                           answers UDP packets and TCP connections
//   probe ping HOST PORT COUNT                UDP, one at a time: each round trip in ns, or "lost"
//   probe tcp-ping HOST PORT COUNT            one connection: the time to open it, then round trips
//   probe sink PORT                           UDP until none arrives for a second:
//                                             "packets bytes ns_between_first_and_last overtaken"
//   probe blast HOST PORT COUNT BYTES GAP_US  sends to a sink
//   probe tcp-sink PORT                       one connection to its end: "bytes ns"
//   probe tcp-blast HOST PORT BYTES           sends to it
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

std::int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

[[noreturn]] void fail(const char* what) {
  perror(what);
  exit(1);
}

sockaddr_in address(const char* host, const char* port) {
  sockaddr_in out = {};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<std::uint16_t>(atoi(port)));
  inet_pton(AF_INET, host, &out.sin_addr);
  return out;
}

int open_socket(int type, const char* host, const char* port, bool listens) {
  const int out = socket(AF_INET, type, 0);
  const int on = 1;
  setsockopt(out, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int buffer = 8 << 20;
  setsockopt(out, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  const sockaddr_in where = address(host, port);
  const auto* generic = reinterpret_cast<const sockaddr*>(&where);
  if (listens ? bind(out, generic, sizeof where) : connect(out, generic, sizeof where)) {
    fail(listens ? "bind" : "connect");
  }
  if (type == SOCK_STREAM) setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (type == SOCK_STREAM && listens) listen(out, 16);
  return out;
}

bool readable(int socket, int timeout_ms) {
  pollfd waited{.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&waited, 1, timeout_ms) > 0;
}

int echo(const char* port) {
  const int packets = open_socket(SOCK_DGRAM, "0.0.0.0", port, true);
  const int listener = open_socket(SOCK_STREAM, "0.0.0.0", port, true);
  printf("ready %s\n", port);
  fflush(stdout);
  std::vector<pollfd> polled{{.fd = packets, .events = POLLIN, .revents = 0},
                             {.fd = listener, .events = POLLIN, .revents = 0}};
  std::array<char, 65536> buffer;
  while (poll(polled.data(), polled.size(), -1) > 0) {
    if (polled[0].revents) {
      sockaddr_in from = {};
      socklen_t size = sizeof from;
      auto* generic = reinterpret_cast<sockaddr*>(&from);
      const ssize_t got = recvfrom(packets, buffer.data(), buffer.size(), 0, generic, &size);
      if (got > 0) sendto(packets, buffer.data(), static_cast<std::size_t>(got), 0, generic, size);
    }
    for (std::size_t i = 2; i < polled.size(); ++i) {
      if (!polled[i].revents) continue;
      const ssize_t got = read(polled[i].fd, buffer.data(), buffer.size());
      if (got > 0 && write(polled[i].fd, buffer.data(), static_cast<std::size_t>(got)) == got) {
        continue;
      }
      close(polled[i].fd);
      polled[i].fd = -1;
    }
    if (polled[1].revents) {
      const int connection = accept(listener, nullptr, nullptr);
      const int on = 1;
      setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      polled.push_back({.fd = connection, .events = POLLIN, .revents = 0});
    }
  }
  return 1;
}

int ping(int type, const char* host, const char* port, int count) {
  const std::int64_t opening = now_ns();
  const int connection = open_socket(type, host, port, false);
  if (type == SOCK_STREAM) printf("%lld\n", static_cast<long long>(now_ns() - opening));
  for (std::int32_t number = 0; number < count; ++number) {
    char packet[64] = {};
    memcpy(packet, &number, sizeof number);
    const std::int64_t sent = now_ns();
    if (send(connection, packet, sizeof packet, MSG_NOSIGNAL) < 0) fail("send");
    bool answered = false;
    // A late answer belongs to an earlier packet.
    while (!answered && readable(connection, 3000)) {
      char answer[64];
      if (recv(connection, answer, sizeof answer, MSG_WAITALL) <= 0) fail("recv");
      answered = memcmp(answer, &number, sizeof number) == 0;
    }
    if (answered) {
      printf("%lld\n", static_cast<long long>(now_ns() - sent));
    } else {
      printf("lost\n");
    }
    fflush(stdout);
  }
  return 0;
}

// Receives a packet. Returns the time at which the system received it, which may be long before
// this process runs.
std::int64_t receive_ns(int socket, char* data, std::size_t room, ssize_t& size) {
  iovec part = {.iov_base = data, .iov_len = room};
  alignas(cmsghdr) std::array<char, 256> control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  size = recvmsg(socket, &message, 0);
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec arrived = {};
    memcpy(&arrived, CMSG_DATA(c), sizeof arrived);
    return std::int64_t{arrived.tv_sec} * 1'000'000'000 + arrived.tv_nsec;
  }
  fail("no time of arrival");
}

int sink(const char* port) {
  const int socket = open_socket(SOCK_DGRAM, "0.0.0.0", port, true);
  const int on = 1;
  if (setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0) fail("SO_TIMESTAMPNS");
  printf("ready %s\n", port);
  fflush(stdout);
  std::array<char, 65536> buffer;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t packets = 0;
  std::int64_t bytes = 0;
  std::int64_t overtaken = 0;
  std::int32_t highest = -1;
  while (readable(socket, packets == 0 ? 60'000 : 1000)) {
    ssize_t got = 0;
    last = receive_ns(socket, buffer.data(), buffer.size(), got);
    if (packets++ == 0) first = last;
    bytes += got;
    std::int32_t number = 0;
    memcpy(&number, buffer.data(), sizeof number);
    overtaken += number < highest;
    highest = number > highest ? number : highest;
  }
  printf("%lld %lld %lld %lld\n", static_cast<long long>(packets), static_cast<long long>(bytes),
         static_cast<long long>(last - first), static_cast<long long>(overtaken));
  return 0;
}

int blast(const char* host, const char* port, std::int32_t count, std::size_t bytes, int gap_us) {
  const int socket = open_socket(SOCK_DGRAM, host, port, false);
  std::vector<char> packet(bytes);
  std::int64_t due = now_ns();
  for (std::int32_t number = 0; number < count; ++number) {
    memcpy(packet.data(), &number, sizeof number);
    (void)!send(socket, packet.data(), packet.size(), 0);
    due += std::int64_t{gap_us} * 1000;
    const std::int64_t left = due - now_ns();
    const timespec wait{.tv_sec = 0, .tv_nsec = static_cast<long>(left > 0 ? left : 0)};
    if (left > 0) nanosleep(&wait, nullptr);
  }
  return 0;
}

void print_congestion_control(int connection) {
  char name[16] = {};
  socklen_t size = sizeof name;
  if (getsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0) fail("getsockopt");
  printf("%.16s\n", name);
}

int tcp_sink(const char* port) {
  const int listener = open_socket(SOCK_STREAM, "0.0.0.0", port, true);
  printf("ready %s\n", port);
  fflush(stdout);
  const int connection = accept(listener, nullptr, nullptr);
  std::array<char, 65536> buffer;
  std::int64_t bytes = 0;
  std::int64_t first = 0;
  for (ssize_t got = 0; (got = read(connection, buffer.data(), buffer.size())) > 0; bytes += got) {
    if (bytes == 0) first = now_ns();
  }
  printf("%lld %lld ", static_cast<long long>(bytes), static_cast<long long>(now_ns() - first));
  print_congestion_control(connection);
  return 0;
}

int tcp_blast(const char* host, const char* port, long long bytes) {
  const int connection = open_socket(SOCK_STREAM, host, port, false);
  const std::vector<char> buffer(65536);
  for (long long left = bytes; left > 0;) {
    const auto part = static_cast<std::size_t>(left < 65536 ? left : 65536);
    const ssize_t sent = send(connection, buffer.data(), part, MSG_NOSIGNAL);
    if (sent <= 0) fail("send");
    left -= sent;
  }
  print_congestion_control(connection);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // If permitted, real-time priority keeps other programs from delaying the measurement.
  const sched_param priority{.sched_priority = 1};
  sched_setscheduler(0, SCHED_RR, &priority);
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "echo") return echo(argv[2]);
  if (what == "sink") return sink(argv[2]);
  if (what == "tcp-sink") return tcp_sink(argv[2]);
  if (what == "ping" && argc == 5) return ping(SOCK_DGRAM, argv[2], argv[3], atoi(argv[4]));
  if (what == "tcp-ping" && argc == 5) return ping(SOCK_STREAM, argv[2], argv[3], atoi(argv[4]));
  if (what == "tcp-blast" && argc == 5) return tcp_blast(argv[2], argv[3], atoll(argv[4]));
  if (what == "blast" && argc == 7) {
    return blast(argv[2], argv[3], atoi(argv[4]), static_cast<std::size_t>(atoll(argv[5])),
                 atoi(argv[6]));
  }
  fprintf(stderr, "usage: the comment at the head of probe.cpp\n");
  return 2;
}
