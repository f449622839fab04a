#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "netsim/drivers/command.h"
#include "netsim/drivers/process.h"
#include "netsim/drivers/process_driver.h"
#include "netsim/drivers/tc_commands.h"

namespace edgedraft::netsim {
namespace {

// netem's table files, for tc.
class TableFolder : TemporaryFolder {
 public:
  explicit TableFolder(const std::vector<TcTable>& tables) {
    for (const TcTable& table : tables) {
      std::ofstream(path() / (table.name + ".dist")) << table.text;
    }
    setenv("TC_LIB_DIR", path().c_str(), 1);
  }
};

Error explained(Error error, const std::string& program, const std::string& congestion_control) {
  if (error.code == Errc::unsupported) {
    error.message += "; apt-get install iproute2, or use --driver tun";
  } else if (program == "tc" && (error.message.find("qdisc kind is unknown") != std::string::npos ||
                                 error.message.find("No such file") != std::string::npos)) {
    error = {Errc::unsupported,
             "this kernel has no sch_netem: as root, modprobe sch_netem, or install the "
             "distribution's full kernel; or use --driver tun, which does not need it (" +
                 error.message + ")"};
  } else if (error.message.find("congctl") != std::string::npos) {
    error = no_congestion_control(congestion_control);
  } else if (error.message.find("type veth") != std::string::npos &&
             error.message.find("not supported") != std::string::npos) {
    error = {Errc::unsupported,
             "this kernel has no veth: as root, modprobe veth; or use --driver tun (" +
                 error.message + ")"};
  }
  return error;
}

class TcLink {
 public:
  TcLink(const NetworkProfile& profile, const LinkNamespaces& namespaces)
      : profile_(profile), namespaces_(namespaces) {}

  Result<void> build() {
    const auto plan = plan_tc_link(profile_);
    if (!plan) return plan.error();
    const TableFolder folder(plan->tables);
    return run_all(plan->commands);
  }

  // A `change` must name the tables again.
  Result<void> fire(const LinkEvent& event) {
    const auto plan = plan_tc_link(profile_);
    if (!plan) return plan.error();
    const TableFolder folder(plan->tables);
    // A new address ends no outage.
    if (event.kind != LinkEvent::Kind::new_address) up_again_.reset();
    if (event.kind == LinkEvent::Kind::down && event.duration > Duration(0)) {
      up_again_ = Clock::now() + event.duration;
    }
    const auto commands = tc_event(profile_, event, addresses_);
    addresses_ += event.kind == LinkEvent::Kind::new_address;
    return run_all(commands);
  }

  Result<LinkStatistics> statistics() {
    const auto up = direction(namespaces_.device_descriptor);
    if (!up) return up.error();
    const auto down = direction(namespaces_.server_descriptor);
    if (!down) return down.error();
    return LinkStatistics{.up = *up, .down = *down};
  }

  std::optional<Instant> up_again() const { return up_again_; }

 private:
  Result<void> run_all(const std::vector<TcCommand>& commands) {
    for (TcCommand command : commands) {
      const bool server = command.end == TcCommand::End::server;
      const int end = server ? namespaces_.server_descriptor : namespaces_.device_descriptor;
      // This process is in the device's namespace.
      std::replace(command.argv.begin(), command.argv.end(), std::string("$device"),
                   std::to_string(getpid()));
      const auto done = run_in(end, command.argv);
      if (!done) return done.error();
    }
    return boost::system::in_place_value;
  }

  Result<std::string> run_in(int end, const std::vector<std::string>& argv) {
    const auto text = run_command(argv, end);
    if (!text) return explained(text.error(), argv.front(), profile_.congestion_control);
    return *text;
  }

  // netem counts packets sent and dropped, without the reason.
  Result<DirectionStatistics> direction(int end) {
    const auto text = run_in(end, {"tc", "-s", "-j", "qdisc", "show", "dev", kInterface, "root"});
    if (!text) return text.error();
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_array() || json.empty() || !json[0].is_object()) {
      return Error{Errc::io, "tc -s -j qdisc show: expected JSON; install iproute2 5 or later"};
    }
    DirectionStatistics statistics;
    statistics.delivered_packets = json[0].value("packets", std::uint64_t{0});
    statistics.delivered_bytes = json[0].value("bytes", std::uint64_t{0});
    statistics.lost = json[0].value("drops", std::uint64_t{0});
    statistics.packets = statistics.delivered_packets + statistics.lost;
    statistics.bytes = statistics.delivered_bytes;
    return statistics;
  }

  const NetworkProfile& profile_;
  LinkNamespaces namespaces_;
  std::optional<Instant> up_again_;
  unsigned addresses_ = 1;
};

Result<LinkReply> answer(TcLink& link, const LinkRequest& request) {
  if (request.kind == LinkRequest::Kind::fire) {
    if (auto fired = link.fire(request.event); !fired) return fired.error();
    return LinkReply{};
  }
  const auto statistics = link.statistics();
  if (!statistics) return statistics.error();
  return LinkReply{.statistics = *statistics};
}

// Link process: the kernel carries the packets; only events are left to handle.
Result<void> hold(const NetworkProfile& profile, LinkChannel& channel) {
  const auto namespaces = make_namespaces();
  if (!namespaces) return namespaces.error();
  TcLink link(profile, *namespaces);
  if (auto built = link.build(); !built) return built.error();
  channel.reply(LinkReply{.namespaces = *namespaces});

  while (!link_process_must_end()) {
    int timeout_ms = -1;
    if (const auto then = link.up_again()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*then - Clock::now());
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
    }
    pollfd readable{.fd = channel.descriptor(), .events = POLLIN, .revents = 0};
    const int ready = poll(&readable, 1, timeout_ms);
    if (link.up_again() && *link.up_again() <= Clock::now()) {
      if (auto up = link.fire({.kind = LinkEvent::Kind::up}); !up) return up.error();
    }
    if (ready <= 0) continue;
    if (!channel.serve([&](const LinkRequest& request) { return answer(link, request); })) break;
  }
  return boost::system::in_place_value;
}

}  // namespace

Result<std::unique_ptr<LinkDriver>> make_tc_link(const NetworkProfile& profile) {
  // Checked before anything is created.
  if (const auto plan = plan_tc_link(profile); !plan) return plan.error();
  return ProcessDriver::start("tc", tc_is_approximate(profile),
                              [&](LinkChannel& channel) { return hold(profile, channel); });
}

}  // namespace edgedraft::netsim
