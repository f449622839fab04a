#pragma once

#include <string>
#include <vector>

#include "netsim/profile.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// An ip or tc command, and the end of the link in whose namespace it runs. The word "$device"
// stands for a process in the device's namespace.
struct TcCommand {
  enum class End { server, device };

  End end;
  std::vector<std::string> argv;
};

// A delay distribution as a netem table of 4,096 equally likely delays. Its file is NAME.dist in
// the folder in TC_LIB_DIR.
struct TcTable {
  std::string name;
  std::string text;
};

struct TcPlan {
  std::vector<TcTable> tables;
  std::vector<TcCommand> commands;
};

// Commands from two empty namespaces to a working link.
//
// Errors   unsupported   netem supports neither traces nor rest nor competing flows
Result<TcPlan> plan_tc_link(const NetworkProfile& profile);

// True if netem differs from the profile: it draws a delay per packet even if the profile holds one
// (`hold_ms`).
bool tc_is_approximate(const NetworkProfile& profile);

// Commands for an event. `addresses` counts the device's addresses so far, from 1.
std::vector<TcCommand> tc_event(const NetworkProfile& profile, const LinkEvent& event,
                                unsigned addresses);

// The plan as a shell script that also creates the namespaces, prints their processes, fires the
// profile's events on time, and removes everything if interrupted.
std::string tc_script(const NetworkProfile& profile, const TcPlan& plan);

}  // namespace edgedraft::netsim
