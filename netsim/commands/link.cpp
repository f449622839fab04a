#include "netsim/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <sstream>
#include <thread>

#include "netsim/drivers/command.h"
#include "netsim/drivers/link_driver.h"
#include "netsim/drivers/process.h"
#include "netsim/drivers/tc_commands.h"
#include "netsim/link/duplex_link.h"
#include "shared/program/interrupt.h"
#include "shared/program/validators.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kServerStartMost = 60s;
constexpr Duration kLookInterval = 500ms;
constexpr Duration kFarewell = 3s;

int list_profiles() {
  for (const std::string& name : shipped_network_profiles()) {
    const NetworkProfile profile = read_network_profile(name).value();
    std::string source = profile.source;
    std::cout << name << '\n';
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) std::cout << "    " << line << '\n';
    }
  }
  return 0;
}

Result<int> show_plan(const NetworkProfile& profile, const std::string& driver) {
  if (driver == "tc") {
    const auto plan = plan_tc_link(profile);
    if (!plan) return plan.error();
    std::cout << tc_script(profile, *plan);
  } else if (driver == "proxy") {
    std::cout << "proxy runs no commands: one process relays TCP connections on loopback.\n";
  } else {
    std::cout << "tun runs no commands: one process creates two network namespaces (inside a user "
                 "namespace unless it is root),\nwith a TUN device in each, and carries packets "
                 "between 198.18.0.1 (server) and 198.18.0.2 (device).\n";
  }
  return 0;
}

constexpr const char* kFates[] = {"delivered", "lost", "queue_full", "link_down"};  // by Fate

// Writes each packet's fate as CSV with a header: direction, number, send time, fate, arrival;
// times in whole nanoseconds since the start. Uses the link model of the drivers tun and proxy at
// simulated times: equal arguments give equal bytes.
void simulate(const NetworkProfile& profile, std::uint32_t packets, std::uint64_t seed) {
  constexpr std::size_t kPacketBytes = 1200;
  constexpr Duration kInterval = 1ms;
  const Instant start{};
  DuplexLink link(profile.up, profile.down, seed, start);
  const auto events = events_until(profile, kInterval * packets);
  auto event = events.begin();

  std::cout << "direction,packet,sent_ns,fate,arrives_ns\n";
  for (std::uint32_t number = 0; number < packets; ++number) {
    const Duration at = kInterval * number;
    for (; event != events.end() && event->at <= at; ++event) {
      link.fire(start + event->at, *event);
    }
    for (const Direction direction : {Direction::up, Direction::down}) {
      Instant arrives{};
      const Fate fate = link.send(direction, start + at, Link::Packet(kPacketBytes), &arrives);
      std::cout << (direction == Direction::up ? "up," : "down,") << number << ',' << at.count()
                << ',' << kFates[static_cast<std::size_t>(fate)] << ',';
      if (fate == Fate::delivered) std::cout << (arrives - start).count();
      std::cout << '\n';
      while (link.receive(direction, start + at)) {
      }
    }
  }
}

// Fires the profile's events on time.
class Script {
 public:
  Script(const NetworkProfile& profile, LinkDriver& link)
      : profile_(profile), link_(link), start_(Clock::now()) {}

  Result<void> keep_time() {
    const Duration now = Clock::now() - start_;
    while (next_ < profile_.events.size()) {
      const LinkEvent& event = profile_.events[next_];
      if (lap_ + event.at > now) break;
      if (auto fired = link_.fire(event); !fired) return fired;
      if (++next_ == profile_.events.size() && profile_.repeat > Duration(0)) {
        next_ = 0;
        lap_ += profile_.repeat;
      }
    }
    return boost::system::in_place_value;
  }

 private:
  const NetworkProfile& profile_;
  LinkDriver& link_;
  Instant start_;
  Duration lap_{0};
  std::size_t next_ = 0;
};

// True if a program at the server's end listens on the port.
bool is_listening(const LinkDriver& link, std::uint16_t port) {
  // A kernel without IPv6 lacks two of them.
  const auto table = run_command(
      link.at_server({"sh", "-c", "cd /proc/net; cat tcp tcp6 udp udp6 2>/dev/null; true"}));
  std::ostringstream wanted;
  wanted << ':' << std::uppercase << std::hex << std::setw(4) << std::setfill('0') << port << ' ';
  std::istringstream lines(table ? *table : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state;
    fields >> number >> local >> remote >> state;
    // TCP_LISTEN; unconnected UDP sockets have the state of closed TCP sockets.
    if ((state == "0A" || state == "07") && (local + " ").ends_with(wanted.str())) return true;
  }
  return false;
}

Result<void> wait_for_server(const LinkDriver& link, Process& server, const LinkCommandOptions& o) {
  const Instant deadline = Clock::now() + kServerStartMost;
  for (;;) {
    if (interrupted()) return boost::system::in_place_value;
    if (!server.running()) {
      return Error{Errc::link_down, "--at-server: the command exited with status " +
                                        std::to_string(server.status()) +
                                        " before listening on port " + std::to_string(o.port)};
    }
    if (is_listening(link, o.port)) return boost::system::in_place_value;
    if (Clock::now() > deadline) {
      return Error{Errc::timed_out, "--at-server: no server listens on port " +
                                        std::to_string(o.port) + "; give its port with --port"};
    }
    std::this_thread::sleep_for(50ms);
  }
}

void print_direction(const char* name, const DirectionStatistics& s) {
  std::cerr << name << s.packets << " packets, " << s.bytes << " bytes; lost " << s.lost
            << ", dropped by a full queue " << s.queue_drops << ", while down " << s.down_drops
            << '\n';
}

std::string host_of(const std::string& endpoint) {
  return endpoint.substr(0, endpoint.rfind(':'));
}

Result<int> hold(const NetworkProfile& profile, LinkDriver& link, const LinkCommandOptions& o) {
  const std::string listen = host_of(link.server_listen()) + ":" + std::to_string(o.port);
  std::optional<Process> server;
  if (!o.at_server.empty()) {
    // Without namespaces, another program on the machine may hold the port and would be mistaken
    // for the server.
    if (is_listening(link, o.port)) {
      return Error{Errc::usage, "--at-server: port " + std::to_string(o.port) +
                                    " is already in use; give another port with --port"};
    }
    // Only the device's command writes to standard output.
    auto started = Process::start({.argv = link.at_server({"sh", "-c", "exec >&2\n" + o.at_server}),
                                   .environment = {{"EDGEDRAFT_SERVER_LISTEN", listen}},
                                   .attached = true,
                                   .grace = kFarewell});
    if (!started) return started.error();
    server.emplace(std::move(*started));
    if (auto ready = wait_for_server(link, *server, o); !ready) return ready.error();
  }
  const auto target = link.device_target(o.port);
  if (!target) return target.error();

  std::cerr << "link " << profile.name << ", driver " << link.name()
            << (link.approximate() ? " (approximate)" : "") << ", seed " << o.seed << '\n';
  std::optional<Process> device;
  if (o.command.empty()) {
    std::cout << "at the server's end: " << shell_line(link.at_server({"COMMAND"})) << '\n'
              << "at the device's end: " << shell_line(link.at_device({"COMMAND"})) << '\n'
              << "the server listens on " << listen << ", the device connects to " << *target
              << '\n'
              << "Ctrl-C removes the link" << std::endl;
  } else {
    auto started = Process::start({.argv = link.at_device(o.command),
                                   .environment = {{"EDGEDRAFT_SERVER", *target}},
                                   .attached = true,
                                   .grace = kFarewell});
    if (!started) return started.error();
    device.emplace(std::move(*started));
  }
  Script script(profile, link);
  Instant next_look = Clock::now();
  std::optional<int> server_status;  // at the last check
  while (!interrupted() && (!device || device->running())) {
    if (auto kept = script.keep_time(); !kept) return kept.error();
    // Detects a killed link process and a failed server. The device that fails with it may end a
    // moment later.
    if (Clock::now() >= next_look) {
      if (auto alive = link.statistics(); !alive) return alive.error();
      if (server_status.value_or(0) != 0) {
        return Error{Errc::link_down, "--at-server: the command exited with status " +
                                          std::to_string(*server_status) +
                                          " before the device's command ended"};
      }
      if (server && !server->running()) server_status = server->status();
      next_look = Clock::now() + kLookInterval;
    }
    std::this_thread::sleep_for(5ms);
  }
  // The server shuts down while the link still exists.
  const bool ended = device && !device->running();
  const int status = ended ? device->status() : 0;
  device.reset();
  server.reset();
  const auto statistics = link.statistics();
  if (!statistics) return statistics.error();
  print_direction("up:   ", statistics->up);
  print_direction("down: ", statistics->down);
  return interrupted() && !o.command.empty() ? kInterruptedExitCode : status;
}

}  // namespace

void declare_link(CLI::App& app, LinkCommandOptions& o) {
  app.add_option("--profile", o.profile, "Network profile: a shipped name (--list) or a TOML file")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  app.add_option(
         "--driver", o.driver,
         "tun: network namespaces and a repeatable link model; tc: namespaces and the kernel's "
         "netem; proxy: a TCP relay without namespaces, approximate; auto: tun, else proxy")
      ->check(CLI::IsMember({"auto", "tun", "tc", "proxy"}))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of all delays and losses (tun and proxy)")
      ->check(is_seed())
      ->capture_default_str();
  app.add_option("--at-server", o.at_server,
                 "Shell command to run at the server's end while COMMAND runs; the address to "
                 "listen on is in $EDGEDRAFT_SERVER_LISTEN")
      ->type_name("COMMAND");
  app.add_option("--port", o.port, "Port that the server listens on")
      ->check(in_range(1u, 65535u))
      ->capture_default_str();
  app.add_flag("--list", o.list, "Print the shipped profiles and the sources of their figures");
  app.add_flag("--dry-run", o.dry_run, "Print what would be done; with tc, as a script");
  app.add_option("--simulate", o.simulate,
                 "Send N packets of 1,200 bytes each way, one per millisecond, through the link "
                 "model alone; print the fate of each as CSV")
      ->type_name("N")
      ->check(in_range(1u, 10'000'000u));
  app.add_option("COMMAND", o.command,
                 "Command to run at the device's end, after `--`; the server's address is in "
                 "$EDGEDRAFT_SERVER. Without a command the link stays up until Ctrl-C");
  app.footer(
      "Examples:\n"
      "  edgedraft-netsim link --list\n"
      "  edgedraft-netsim link --profile 4g-good          # prints how to enter its ends\n"
      "  edgedraft-netsim link --profile paper-5g -- ping -c 5 198.18.0.1\n"
      "  edgedraft-netsim link --profile train-tunnel \\\n"
      "    --at-server 'edgedraft-server --model target.gguf --bundle drafter.gguf --token-file "
      "token' \\\n"
      "    -- edgedraft run --bundle drafter.gguf --token-file token --pin sha256:HEX -p Hello\n"
      "  edgedraft-netsim link --profile leo --seed 7 --simulate 1000 > schedule.csv\n"
      "Any program may run at the ends. In the namespaces the server is 198.18.0.1, the device\n"
      "198.18.0.2. When this program ends, for any reason, everything that it started "
      "ends, too.");
}

Result<int> run_link(const LinkCommandOptions& o) {
  if (o.list) return list_profiles();
  const auto profile = read_network_profile(o.profile);
  if (!profile) return profile.error();
  if (o.simulate > 0) {
    simulate(*profile, o.simulate, o.seed);
    return 0;
  }
  if (o.dry_run) return show_plan(*profile, o.driver);
  if (!o.at_server.empty() && o.command.empty()) {
    return Error{Errc::usage,
                 "--at-server: missing the device's command; give it after `--`, or run "
                 "`edgedraft-netsim link` alone and start both programs by hand"};
  }
  catch_interrupts();
  const auto link = make_link(*profile, o.driver, o.seed);
  if (!link) return link.error();
  return hold(*profile, **link, o);
}

}  // namespace edgedraft::netsim
