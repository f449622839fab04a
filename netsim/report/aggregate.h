#pragma once

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

// Tokens a second of all clients of a trial together, from the first one's asking to the last one's
// end, by number of clients.
std::map<std::uint32_t, std::vector<double>> rates_together(const std::vector<const Run*>& runs);

}  // namespace edgedraft::netsim
