#pragma once

#include <span>
#include <string_view>

namespace edgedraft::netsim {

// A file of netsim/profiles, compiled into the program.
struct ShippedProfile {
  std::string_view name;
  std::string_view text;
};

extern const std::span<const ShippedProfile> kShippedProfiles;

}  // namespace edgedraft::netsim
