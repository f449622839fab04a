#include "netsim/drivers/namespaces.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace edgedraft::netsim {
namespace {

// Kernel queue length, above any burst, so that the link's own limit applies.
constexpr int kDeviceQueuePackets = 20'000;

std::string reason() {
  return std::strerror(errno);
}

class Socket {
 public:
  Socket() : descriptor_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { close(descriptor_); }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

ifreq request_for(const std::string& interface) {
  ifreq request = {};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

bool write_file(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int saved = errno;
  close(file);
  errno = saved;
  return written;
}

std::string first_word(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Remedies for an unprivileged user.
Error no_user_namespace(const std::string& what) {
  std::string remedy = "run as root";
  if (first_word("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1") {
    remedy += ", or allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0";
  } else if (first_word("/proc/sys/kernel/unprivileged_userns_clone") == "0") {
    remedy += ", or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1";
  } else if (first_word("/proc/sys/user/max_user_namespaces") == "0") {
    remedy += ", or allow user namespaces: sysctl user.max_user_namespaces=10000";
  } else {
    remedy += " (in a container: with CAP_SYS_ADMIN and CAP_NET_ADMIN)";
  }
  return {Errc::unsupported, "no network namespaces for this user: " + what + ": " + reason() +
                                 "; " + remedy + ", or use --driver proxy"};
}

Result<void> enter_own_user_namespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return no_user_namespace("unshare");
  const std::string to_root = "0 ";
  if (!write_file("/proc/self/setgroups", "deny") ||
      !write_file("/proc/self/uid_map", to_root + std::to_string(user) + " 1") ||
      !write_file("/proc/self/gid_map", to_root + std::to_string(group) + " 1")) {
    return no_user_namespace("uid_map");
  }
  return boost::system::in_place_value;
}

struct OpenNamespace {
  int descriptor;
  std::uint64_t inode;
};

Result<OpenNamespace> open_current() {
  struct stat info = {};
  const int descriptor = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || fstat(descriptor, &info) != 0) {
    return Error{Errc::unsupported, "/proc/self/ns/net: " + reason()};
  }
  // No router advertisements or neighbour discovery: only measured traffic on the link.
  write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  if (auto up = set_up("lo"); !up) return up.error();
  return OpenNamespace{.descriptor = descriptor, .inode = info.st_ino};
}

}  // namespace

std::string device_address(unsigned number) {
  in_addr address = {};
  inet_pton(AF_INET, kServerAddress, &address);
  address.s_addr = htonl(ntohl(address.s_addr) + 1 + number);
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, &address, text, sizeof text);
}

Result<LinkNamespaces> make_namespaces() {
  LinkNamespaces made;
  if (unshare(CLONE_NEWNET) != 0) {
    if (errno != EPERM) return no_user_namespace("unshare");
    if (auto entered = enter_own_user_namespace(); !entered) return entered.error();
    made.own_user = true;
  }
  const auto server = open_current();
  if (!server) return server.error();
  if (unshare(CLONE_NEWNET) != 0) return no_user_namespace("unshare");
  const auto device = open_current();
  if (!device) return device.error();
  made.server_descriptor = server->descriptor;
  made.server_inode = server->inode;
  made.device_descriptor = device->descriptor;
  made.device_inode = device->inode;
  return made;
}

Result<void> enter_namespace(int descriptor) {
  if (setns(descriptor, CLONE_NEWNET) != 0) return Error{Errc::io, "setns: " + reason()};
  return boost::system::in_place_value;
}

Result<int> make_tun_device() {
  const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0) {
    const char* remedy = errno == EACCES || errno == EPERM
                             ? "; as root: chmod 666 /dev/net/tun (the default of Debian and "
                               "Ubuntu), or use --driver proxy"
                             : "; as root: modprobe tun (in a container: --device /dev/net/tun), "
                               "or use --driver proxy";
    return Error{Errc::unsupported, "/dev/net/tun: " + reason() + remedy};
  }
  ifreq request = request_for(kInterface);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(tun, TUNSETIFF, &request) != 0) {
    const Error error{Errc::unsupported, std::string("cannot create a TUN device: ") + reason() +
                                             "; run as root or use --driver proxy"};
    close(tun);
    return error;
  }
  const Socket socket;
  ifreq queue = request_for(kInterface);
  queue.ifr_qlen = kDeviceQueuePackets;
  // Needs root in the machine's namespace; otherwise the kernel's 500 packets remain.
  ioctl(socket.descriptor(), SIOCSIFTXQLEN, &queue);
  return tun;
}

Result<void> set_up(const std::string& interface) {
  const Socket socket;
  ifreq request = request_for(interface);
  if (ioctl(socket.descriptor(), SIOCGIFFLAGS, &request) == 0) {
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
    if (ioctl(socket.descriptor(), SIOCSIFFLAGS, &request) == 0) {
      return boost::system::in_place_value;
    }
  }
  return Error{Errc::unsupported, interface + ": cannot bring the interface up: " + reason() +
                                      "; run as root or use --driver proxy"};
}

Result<void> set_address(const std::string& interface, const std::string& address) {
  const Socket socket;
  ifreq request = request_for(interface);
  auto* inet = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  inet->sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &inet->sin_addr);
  if (ioctl(socket.descriptor(), SIOCSIFADDR, &request) == 0) {
    inet->sin_addr.s_addr = htonl(~0u << (32 - kPrefixBits));
    if (ioctl(socket.descriptor(), SIOCSIFNETMASK, &request) == 0) {
      return boost::system::in_place_value;
    }
  }
  return Error{Errc::io, interface + ": address " + address + ": " + reason()};
}

Error no_congestion_control(const std::string& name) {
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::string loaded;
  std::getline(file, loaded);
  return {Errc::usage, "congestion_control: this kernel has no '" + name + "' (loaded: " + loaded +
                           "); as root, modprobe tcp_" + name +
                           ", or name another in the profile or experiment"};
}

Result<void> set_congestion_control(const std::string& address, const std::string& name) {
  // Equals `ip route replace 198.18.0.0/15 dev edgedraft0 src ADDRESS congctl NAME`; minimal
  // systems lack ip.
  struct {
    nlmsghdr header;
    rtmsg route;
    std::byte attributes[128];
  } request = {};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.route);
  request.header.nlmsg_type = RTM_NEWROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
  request.route.rtm_family = AF_INET;
  request.route.rtm_dst_len = kPrefixBits;
  request.route.rtm_table = RT_TABLE_MAIN;
  request.route.rtm_protocol = RTPROT_BOOT;
  request.route.rtm_scope = RT_SCOPE_LINK;
  request.route.rtm_type = RTN_UNICAST;
  const auto add = [&](unsigned short type, const void* data, std::size_t size) {
    auto* const at = reinterpret_cast<std::byte*>(&request) + request.header.nlmsg_len;
    const rtattr head{.rta_len = static_cast<unsigned short>(RTA_LENGTH(size)), .rta_type = type};
    std::memcpy(at, &head, sizeof head);
    if (size > 0) std::memcpy(at + RTA_LENGTH(0), data, size);
    request.header.nlmsg_len += static_cast<unsigned>(RTA_SPACE(size));
    return at;
  };
  in_addr source = {};
  inet_pton(AF_INET, address.c_str(), &source);
  const in_addr network{.s_addr = source.s_addr & htonl(~0u << (32 - kPrefixBits))};
  const unsigned interface = if_nametoindex(kInterface);
  add(RTA_DST, &network, sizeof network);
  add(RTA_PREFSRC, &source, sizeof source);
  add(RTA_OIF, &interface, sizeof interface);
  auto* const metrics = add(RTA_METRICS, nullptr, 0);
  add(RTAX_CC_ALGO, name.c_str(), name.size() + 1);
  const rtattr head{
      .rta_len = static_cast<unsigned short>(RTA_LENGTH(0) + RTA_SPACE(name.size() + 1)),
      .rta_type = RTA_METRICS};
  std::memcpy(metrics, &head, sizeof head);

  const int socket = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  struct {
    nlmsghdr header;
    nlmsgerr error;
    std::byte rest[512];
  } reply = {};
  const bool answered = send(socket, &request, request.header.nlmsg_len, 0) >= 0 &&
                        recv(socket, &reply, sizeof reply, 0) >= 0;
  const int code = answered ? -reply.error.error : errno;
  close(socket);
  if (code == 0) return boost::system::in_place_value;
  if (code == EINVAL) return no_congestion_control(name);
  return Error{Errc::io, std::string(kInterface) + ": route: " + std::strerror(code)};
}

}  // namespace edgedraft::netsim
