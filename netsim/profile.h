#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "netsim/link/events.h"
#include "netsim/link/options.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// A disconnection that the text, not the clock, calls for. Only a runner that counts tokens can
// obey it.
struct TokenOutage {
  std::uint32_t after_tokens = 0;
  Duration duration{0};  // zero: for good
};

// What a network does, as a TOML file says it (docs/networks.md).
struct NetworkProfile {
  std::string name;    // one line, without |
  std::string source;  // where its figures come from
  std::string text;    // the file as it was read, for hashes and reports
  // TCP's algorithm at both ends, by the kernel's name for it.
  std::string congestion_control = "cubic";

  LinkOptions up;    // device to server
  LinkOptions down;  // server to device

  std::vector<LinkEvent> events;  // in order of time
  Duration repeat{0};             // the events start again after that long; zero: never
  std::vector<TokenOutage> outages;
};

// Whether the kernel could have a congestion control of that name.
bool is_congestion_control(std::string_view name);

// The events of the first `span` of a run, with what repeats written out.
std::vector<LinkEvent> events_until(const NetworkProfile& profile, Duration span);

// Reads a profile: a shipped one by its name, else a file (anything with a '/' or '.' is one).
// Traces are found relative to the file.
//
// Errors   usage   no such profile, an unknown key, a value out of range: names the file, the line,
//                  the key and what is allowed
//          io      the file or its trace cannot be read
Result<NetworkProfile> read_network_profile(const std::string& name_or_path);

// The same from TOML text. `file` is for messages and for finding traces.
Result<NetworkProfile> parse_network_profile(std::string_view text,
                                             const std::filesystem::path& file);

// The names of the profiles that come with the program, gentlest first.
std::vector<std::string> shipped_network_profiles();

}  // namespace edgedraft::netsim
