#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netsim/link/options.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// A disconnection triggered by the text, not the clock. Only a runner that counts tokens can
// perform it.
struct TokenOutage {
  std::uint32_t after_tokens = 0;
  Duration duration{0};  // zero: permanent
};

// A network, parsed from a TOML profile (docs/networks.md).
struct NetworkProfile {
  std::string name;    // one line, without |
  std::string source;  // source of its figures
  std::string text;    // the file's text, for hashes and reports
  // TCP congestion control at both ends, by kernel name.
  std::string congestion_control = "cubic";

  LinkOptions up;    // device to server
  LinkOptions down;  // server to device

  std::vector<LinkEvent> events;  // in time order
  Duration repeat{0};             // period after which the events repeat; zero: never
  std::vector<TokenOutage> outages;
};

// True if `name` is a valid congestion control name.
bool is_congestion_control(std::string_view name);

// Events of the first `span` of a run, with repetitions expanded.
std::vector<LinkEvent> events_until(const NetworkProfile& profile, Duration span);

// Reads a profile: a shipped one by name, else a file (any name with '/' or '.'). Trace paths are
// relative to the file.
//
// Errors   usage   unknown profile or key, or a value out of range: names the file, the line, the
//                  key and the allowed values
//          io      the file or its trace cannot be read
Result<NetworkProfile> read_network_profile(const std::string& name_or_path);

// As above, from TOML text. `file` is for messages and for resolving traces.
Result<NetworkProfile> parse_network_profile(std::string_view text,
                                             const std::filesystem::path& file);

// Names of the shipped profiles, gentlest first.
std::vector<std::string> shipped_network_profiles();

// A file of netsim/profiles, compiled into the program.
struct ShippedProfile {
  std::string_view name;
  std::string_view text;
};

extern const std::span<const ShippedProfile> kShippedProfiles;

}  // namespace edgedraft::netsim
