#pragma once

#include <string>
#include <vector>

#include "netsim/profile.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// A command of ip or tc, and the end of the link in whose namespace it runs. The word "$device"
// stands for a process that is in the device's namespace.
struct TcCommand {
  enum class End { server, device };

  End end;
  std::vector<std::string> argv;
};

// A delay law as a table for netem, which draws from 4,096 equally likely delays. Its file is
// NAME.dist in the folder that TC_LIB_DIR names.
struct TcTable {
  std::string name;
  std::string text;
};

struct TcPlan {
  std::vector<TcTable> tables;
  std::vector<TcCommand> commands;
};

// Everything between two empty namespaces and a link that works.
//
// Errors   unsupported   netem plays no traces and knows neither rest nor competing flows
Result<TcPlan> plan_tc_link(const NetworkProfile& profile);

// Whether netem makes another link than the profile describes: each packet draws its own delay,
// which holds for no other (`hold_ms`).
bool tc_is_approximate(const NetworkProfile& profile);

// What an event takes. `addresses` counts the device's addresses so far, from 1.
std::vector<TcCommand> tc_event(const NetworkProfile& profile, const LinkEvent& event,
                                unsigned addresses);

// The plan as a shell script that makes the namespaces too, prints their processes, does the
// profile's events as time passes, and takes all of it down when it is interrupted.
std::string tc_script(const NetworkProfile& profile, const TcPlan& plan);

}  // namespace edgedraft::netsim
