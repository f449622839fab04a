#include "netsim/drivers/tc_commands.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "netsim/drivers/command.h"
#include "netsim/drivers/namespaces.h"
#include "netsim/link/options.h"
#include "shared/base/printable.h"
#include "shared/program/toml_reader.h"

namespace edgedraft::netsim {
namespace {

// netem: delay = mean + jitter * entry / 8192, with 16-bit entries.
constexpr int kTableEntries = 4096;
constexpr double kTableScale = 8192;
constexpr double kEntryMax = 32767;

// Fixed for static neighbour entries; loss would hit ARP packets too.
constexpr const char* kServerMac = "02:00:c6:12:00:01";
constexpr const char* kDeviceMac = "02:00:c6:12:00:02";

constexpr const char* kScriptStart = R"sh(
# Two network namespaces, a veth pair between them, netem on both ends. Each packet draws its own
# delay, since netem has no equivalent of a profile's hold_ms.
# Run as root; the link exists until the script is interrupted.
set -e
TC_LIB_DIR=$(mktemp -d)
export TC_LIB_DIR
unshare --net sleep 1000000 & server=$!
unshare --net sleep 1000000 & device=$!
trap 'rm -r "$TC_LIB_DIR"; kill $server $device $pause' EXIT
trap 'exit 130' INT TERM
for end in $server $device; do
  while [ "$(readlink /proc/$end/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do
    sleep 0.1
  done
  nsenter --net=/proc/$end/ns/net ip link set dev lo up
  # Only measured packets on the link.
  nsenter --net=/proc/$end/ns/net sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
done
)sh";

constexpr const char* kScriptReady = R"sh(
echo "enter the server's end: nsenter --net=/proc/$server/ns/net"
echo "enter the device's end: nsenter --net=/proc/$device/ns/net"
)sh";

// Times are hundredths of a second, the resolution of /proc/uptime.
constexpr const char* kScriptClock = R"sh(
uptime() {
  read -r now _ < /proc/uptime
  now=${now%.*}${now#*.}
}
# Waits until so long after the lap's start.
at() {
  uptime
  left=$((start + $1 - now))
  [ $left -gt 0 ] || return 0
  sleep "$((left / 100)).$(printf %02d $((left % 100)))" & pause=$!
  wait $pause
  pause=
}
# The device's next address.
move() {
  old=$new
  number=$((number + 1))
  new=198.18.$((number / 256)).$((number % 256))
}
number=2
new=198.18.0.2
uptime
start=$now
)sh";

using Words = std::vector<std::string>;
using End = TcCommand::End;

double nanoseconds(Duration d) {
  return std::chrono::duration<double, std::nano>(d).count();
}

// iproute2 before 6.2 has no shorter unit, but accepts fractions.
std::string us(double nanoseconds) {
  return number_text(std::round(nanoseconds) / 1000) + "us";
}

std::string percent(double share) {
  return number_text(100 * share) + "%";
}

std::string table_name(End end) {
  return end == End::server ? "edgedraft-down" : "edgedraft-up";
}

struct DelayRange {
  double middle;
  double reach;  // the largest distance from the middle
};

// Range of the delays at the table's 4,096 quantiles.
DelayRange range_of(const DelayDistribution& distribution) {
  const double least = nanoseconds(delay_quantile(distribution, 0.5 / kTableEntries));
  const double most = nanoseconds(delay_quantile(distribution, 1 - 0.5 / kTableEntries));
  return {.middle = (least + most) / 2, .reach = (most - least) / 2};
}

double jitter_of(const DelayRange& range) {
  return range.reach * kTableScale / kEntryMax;
}

bool is_random(const DelayDistribution& distribution) {
  return distribution.kind != DelayDistribution::Kind::constant && range_of(distribution).reach > 0;
}

TcTable table_of(const DelayDistribution& distribution, const std::string& name) {
  const DelayRange range = range_of(distribution);
  std::ostringstream text;
  for (int i = 0; i < kTableEntries; ++i) {
    const double delay = nanoseconds(delay_quantile(distribution, (i + 0.5) / kTableEntries));
    const double entry = std::round((delay - range.middle) * kEntryMax / range.reach);
    text << static_cast<int>(std::clamp(entry, -kEntryMax, kEntryMax))
         << (i % 16 == 15 ? '\n' : ' ');
  }
  return {.name = name, .text = text.str()};
}

// Queue and flight: netem's limit counts both, and drops silently above it.
std::size_t packets_held(const LinkOptions& link) {
  const DelayRange range = range_of(link.delay);
  const double flight_s = (range.middle + range.reach) / 1e9;
  const double packets = flight_s * static_cast<double>(link.bits_per_second) / 8 / 1500;
  return link.queue_packets + static_cast<std::size_t>(std::ceil(packets)) + 1;
}

void append(Words& words, Words more) {
  words.insert(words.end(), more.begin(), more.end());
}

Words loss_of(const LinkOptions& link) {
  if (!link.burst_loss) {
    return link.loss > 0 ? Words{"loss", percent(link.loss)} : Words{};
  }
  // netem has one loss model; independent loss is added to both of its states.
  const GilbertElliott& burst = *link.burst_loss;
  const double in_burst = 1 - (1 - burst.loss_in_burst) * (1 - link.loss);
  const double outside = 1 - (1 - burst.loss_outside) * (1 - link.loss);
  return {"loss",          "gemodel", percent(burst.enter), percent(burst.leave), percent(in_burst),
          percent(outside)};
}

// netem arguments of one end; drops everything while the link is down.
Words netem(const LinkOptions& link, End end, const char* verb, bool down) {
  Words words{"tc",
              "qdisc",
              verb,
              "dev",
              kInterface,
              "root",
              "handle",
              "1:",
              "netem",
              "limit",
              std::to_string(packets_held(link))};
  if (is_random(link.delay)) {
    const DelayRange range = range_of(link.delay);
    append(words,
           {"delay", us(range.middle), us(jitter_of(range)), "distribution", table_name(end)});
  } else {
    append(words, {"delay", us(range_of(link.delay).middle)});
  }
  append(words, down ? Words{"loss", "100%"} : loss_of(link));
  // netem keeps packets in order if it has a rate of its own.
  if (!link.reorder) append(words, {"rate", std::to_string(link.bits_per_second) + "bit"});
  return words;
}

// Sets the profile's congestion control for TCP over the link; replaces the connected route.
Words route_of(const std::string& address, const std::string& congestion_control) {
  return {"ip",       "route", "replace", kLinkNetwork, "dev",
          kInterface, "src",   address,   "congctl",    congestion_control};
}

void plan_end(TcPlan& plan, End end, const LinkOptions& link,
              const std::string& congestion_control) {
  const bool server = end == End::server;
  const std::string own = server ? kServerAddress : device_address(0);
  const std::string other = server ? device_address(0) : kServerAddress;
  const auto add = [&](Words words) { plan.commands.push_back({end, std::move(words)}); };

  add({"ip", "link", "set", "dev", kInterface, "address", server ? kServerMac : kDeviceMac});
  add({"ip", "address", "add", own + "/" + std::to_string(kPrefixBits), "dev", kInterface});
  if (is_random(link.delay)) plan.tables.push_back(table_of(link.delay, table_name(end)));
  add(netem(link, end, "add", false));
  if (link.reorder) {
    // A separate rate after the delay keeps the order that the delays produced.
    add({"tc", "qdisc", "add", "dev", kInterface, "parent", "1:1", "handle", "2:", "tbf", "rate",
         std::to_string(link.bits_per_second) + "bit", "burst", "1600", "limit",
         std::to_string(link.queue_packets * 1514)});
  }
  add({"ip", "link", "set", "dev", kInterface, "up"});
  add({"ip", "neighbour", "replace", other, "lladdr", server ? kDeviceMac : kServerMac, "nud",
       "permanent", "dev", kInterface});
  add(route_of(own, congestion_control));
}

std::vector<TcCommand> new_address(const NetworkProfile& profile, const std::string& old,
                                   const std::string& next) {
  const std::string prefix = "/" + std::to_string(kPrefixBits);
  return {
      {End::server,
       {"ip", "neighbour", "replace", next, "lladdr", kDeviceMac, "nud", "permanent", "dev",
        kInterface}},
      {End::device, {"ip", "address", "delete", old + prefix, "dev", kInterface}},
      {End::device, {"ip", "address", "add", next + prefix, "dev", kInterface}},
      {End::device, route_of(next, profile.congestion_control)},
  };
}

// The events, with each outage's end as an event of its own unless a later event ends it first.
std::vector<LinkEvent> with_ends(const NetworkProfile& profile) {
  std::vector<LinkEvent> switches;
  for (const LinkEvent& event : profile.events) {
    if (event.kind != LinkEvent::Kind::new_address) switches.push_back(event);
  }
  std::vector<LinkEvent> events = profile.events;
  for (std::size_t i = 0; i < switches.size(); ++i) {
    if (switches[i].duration <= Duration(0)) continue;
    const Duration end = switches[i].at + switches[i].duration;
    const bool last = i + 1 == switches.size();
    const bool goes_on = !last || profile.repeat > Duration(0);
    const Duration next = last ? profile.repeat + switches[0].at : switches[i + 1].at;
    if (goes_on && next <= end) continue;
    events.push_back({.kind = LinkEvent::Kind::up, .at = end});
  }
  std::ranges::stable_sort(events, {}, &LinkEvent::at);
  return events;
}

void write_commands(std::ostream& out, const std::vector<TcCommand>& commands) {
  for (const TcCommand& command : commands) {
    out << "nsenter --net=/proc/$" << (command.end == End::server ? "server" : "device")
        << "/ns/net " << shell_line(command.argv) << '\n';
  }
}

long hundredths(Duration d) {
  return std::lround(seconds(d) * 100);
}

void write_events(std::ostream& out, const NetworkProfile& profile) {
  if (profile.events.empty()) return;
  out << kScriptClock;
  const bool repeats = profile.repeat > Duration(0);
  if (repeats) out << "while :; do\n";
  for (const LinkEvent& event : with_ends(profile)) {
    out << "at " << hundredths(event.at) << '\n';
    if (event.kind == LinkEvent::Kind::new_address) {
      out << "move\n";
      write_commands(out, new_address(profile, "$old", "$new"));
    } else {
      write_commands(out, tc_event(profile, event, 1));
    }
  }
  if (repeats) out << "start=$((start + " << hundredths(profile.repeat) << "))\ndone\n";
}

}  // namespace

Result<TcPlan> plan_tc_link(const NetworkProfile& profile) {
  if (profile.up.trace || profile.down.trace) {
    return Error{Errc::unsupported,
                 profile.name + ": netem cannot play traces; use --driver tun or proxy"};
  }
  for (const LinkOptions* link : {&profile.up, &profile.down}) {
    if (link->rest.empty() && !link->competing) continue;
    return Error{
        Errc::unsupported,
        profile.name +
            ": netem supports neither rest nor competing flows; use --driver tun or proxy"};
  }
  TcPlan plan;
  // One packet at a time on the link, not a burst that the kernel splits at the other end.
  const Words end{"name", kInterface, "gso_max_segs", "1"};
  Words add{"ip", "link", "add"};
  append(add, end);
  append(add, {"type", "veth", "peer"});
  append(add, end);
  append(add, {"netns", "$device"});
  plan.commands.push_back({End::server, add});
  plan_end(plan, End::server, profile.down, profile.congestion_control);
  plan_end(plan, End::device, profile.up, profile.congestion_control);
  return plan;
}

bool tc_is_approximate(const NetworkProfile& profile) {
  const auto holds = [](const LinkOptions& link) {
    return link.delay.hold > Duration(0) && is_random(link.delay);
  };
  return holds(profile.up) || holds(profile.down);
}

std::vector<TcCommand> tc_event(const NetworkProfile& profile, const LinkEvent& event,
                                unsigned addresses) {
  if (event.kind == LinkEvent::Kind::new_address) {
    return new_address(profile, device_address(addresses - 1), device_address(addresses));
  }
  const bool down = event.kind == LinkEvent::Kind::down;
  return {{End::server, netem(profile.down, End::server, "change", down)},
          {End::device, netem(profile.up, End::device, "change", down)}};
}

std::string tc_script(const NetworkProfile& profile, const TcPlan& plan) {
  std::ostringstream out;
  // The name must be printable: a newline would end the comment, and root runs the rest.
  out << "#!/bin/sh\n# The link '" << printable(profile.name, Lines::one) << "' by netem."
      << kScriptStart;
  for (const TcTable& table : plan.tables) {
    out << "cat > \"$TC_LIB_DIR/" << table.name << ".dist\" <<'END'\n" << table.text << "END\n";
  }
  write_commands(out, plan.commands);
  out << kScriptReady;
  write_events(out, profile);
  out << "wait\n";
  return out.str();
}

}  // namespace edgedraft::netsim
