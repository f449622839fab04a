#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "netsim/report/run_data.h"
#include "netsim/report/statistics.h"

namespace edgedraft::netsim {

// The runs that ended well.
std::vector<const Run*> good(const std::vector<const Run*>& runs);
// Those of them whose link was not cut on purpose.
std::vector<const Run*> uncut(const std::vector<const Run*>& runs);

double mean_of(const std::vector<const Run*>& runs, double Run::*member);

// Both arms' runs under the same circumstances, and a figure of theirs.
std::vector<std::pair<const Run*, const Run*>> matched(const std::vector<const Run*>& ours,
                                                       const std::vector<const Run*>& theirs);
std::vector<Pair> paired(const std::vector<const Run*>& ours, const std::vector<const Run*>& theirs,
                         const std::function<double(const Run&)>& figure);

// Tokens a second of all clients of a trial together, by number of clients: the tokens of all
// trials over their time. Programs start one after another, some slower than others, so only the
// time counts in which all of a trial's clients were at work, from the last one's asking to the
// first one's end. A trial without such a time is left out.
std::map<std::uint32_t, double> rates_together(const std::vector<const Run*>& runs);

}  // namespace edgedraft::netsim
