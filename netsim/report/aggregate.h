#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "netsim/report/run_data.h"
#include "netsim/report/statistics.h"

namespace edgedraft::netsim {

// Successful runs.
std::vector<const Run*> good(const std::vector<const Run*>& runs);
// Successful runs without a deliberate link cut.
std::vector<const Run*> uncut(const std::vector<const Run*>& runs);

double mean_of(const std::vector<const Run*>& runs, double Run::*member);

// Pairs of both arms' runs under equal conditions, with one metric.
std::vector<std::pair<const Run*, const Run*>> matched(const std::vector<const Run*>& ours,
                                                       const std::vector<const Run*>& theirs);
std::vector<Pair> paired(const std::vector<const Run*>& ours, const std::vector<const Run*>& theirs,
                         const std::function<double(const Run&)>& figure);

// Tokens per second of all clients of a trial together, by client count: the tokens of all trials
// over their time. Programs start one after another, at different speeds. Only the time with all
// clients at work counts, from the last request to the first end. Trials without such a time are
// skipped.
std::map<std::uint32_t, double> rates_together(const std::vector<const Run*>& runs);

}  // namespace edgedraft::netsim
