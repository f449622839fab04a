#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace edgedraft {

// How likely the hints that a session offers for a pass are to be accepted, in the order in which
// they may be taken: a parent first.
using HintOffer = std::span<const double>;

struct PassSoFar {
  std::uint32_t rows;       // that take part in any case, 1 at least
  double tokens;            // that they bring
  std::uint32_t rows_left;  // that fit beside them
  // A session without hints takes part: the pass may take no longer than 1.03 times what it would
  // without any.
  bool hold_short;
};

// How many hints of each session to take into a pass so that it brings the most tokens a second:
// the likeliest of all sessions, as far as the pass's measured cost makes them worth their rows.
//
// Returns   as many numbers as offers
std::vector<std::uint32_t> fill_rows(const PassSoFar& pass, std::span<const HintOffer> offers,
                                     const std::function<double(std::uint32_t rows)>& seconds);

}  // namespace edgedraft
