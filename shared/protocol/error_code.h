#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "shared/base/error.h"

namespace edgedraft::wire {

// Error numbers of docs/protocol.md, "Error". Any other code is sent as `io`.
inline constexpr std::array<std::pair<std::uint16_t, Errc>, 13> kErrorCodes = {{
    {1, Errc::unsupported},
    {2, Errc::mismatch},
    {3, Errc::context_full},
    {4, Errc::frame_too_large},
    {5, Errc::bad_message},
    {6, Errc::protocol},
    {7, Errc::version},
    {8, Errc::unauthorized},
    {9, Errc::refused},
    {10, Errc::session_unknown},
    {11, Errc::timed_out},
    {12, Errc::cancelled},
    {13, Errc::io},
}};

}  // namespace edgedraft::wire
