#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "netsim/report/run_data.h"
#include "netsim/report/statistics.h"

namespace edgedraft::netsim {

// The runs that ended well.
std::vector<const Run*> good(const std::vector<const Run*>& runs);
// Those of them whose link was not cut on purpose.
std::vector<const Run*> uncut(const std::vector<const Run*>& runs);

double mean_of(const std::vector<const Run*>& runs, double Run::*member);

// Both arms' figures under the same circumstances.
std::vector<Pair> paired(const std::vector<const Run*>& ours, const std::vector<const Run*>& theirs,
                         double Run::*member);

// Tokens a second of all clients of a trial together, by number of clients: the tokens of all
// trials over their time. Programs start one after another, some slower than others, so only the
// time counts in which all of a trial's clients were at work, from the last one's asking to the
// first one's end. A trial without such a time is left out.
std::map<std::uint32_t, double> rates_together(const std::vector<const Run*>& runs);

}  // namespace edgedraft::netsim
