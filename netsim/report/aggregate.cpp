#include "netsim/report/aggregate.h"

#include <algorithm>
#include <limits>

namespace edgedraft::netsim {

std::vector<const Run*> good(const std::vector<const Run*>& runs) {
  std::vector<const Run*> kept;
  for (const Run* run : runs) {
    if (run->failure.empty()) kept.push_back(run);
  }
  return kept;
}

std::vector<const Run*> uncut(const std::vector<const Run*>& runs) {
  std::vector<const Run*> kept = good(runs);
  std::erase_if(kept, [](const Run* run) { return run->offline_after.has_value(); });
  return kept;
}

double mean_of(const std::vector<const Run*>& runs, double Run::*member) {
  std::vector<double> values;
  for (const Run* run : runs) values.push_back(run->*member);
  return mean(values);
}

std::vector<Pair> paired(const std::vector<const Run*>& ours, const std::vector<const Run*>& theirs,
                         double Run::*member) {
  std::map<std::string, const Run*> by_key;
  for (const Run* run : theirs) by_key[run->pair_key] = run;
  std::vector<Pair> pairs;
  for (const Run* run : ours) {
    const auto found = by_key.find(run->pair_key);
    if (found == by_key.end()) continue;
    pairs.push_back({.group = run->prompt, .ours = run->*member, .theirs = found->second->*member});
  }
  return pairs;
}

std::map<std::uint32_t, std::vector<double>> rates_together(const std::vector<const Run*>& runs) {
  struct Together {
    std::uint32_t clients = 0;
    double tokens = 0;
    double first_asked = std::numeric_limits<double>::infinity();
    double last_ended = 0;
    std::uint32_t members = 0;
  };
  std::map<std::string, Together> trials;
  for (const Run* run : uncut(runs)) {
    Together& trial = trials[run->trial];
    trial.clients = run->clients;
    trial.tokens += run->tokens;
    trial.first_asked = std::min(trial.first_asked, run->asked_at_s);
    trial.last_ended = std::max(trial.last_ended, run->asked_at_s + run->seconds);
    ++trial.members;
  }
  std::map<std::uint32_t, std::vector<double>> rates;
  for (const auto& [id, trial] : trials) {
    // One that failed would make the others look slow, or fast.
    const double seconds = trial.last_ended - trial.first_asked;
    if (trial.members == trial.clients && seconds > 0) {
      rates[trial.clients].push_back(trial.tokens / seconds);
    }
  }
  return rates;
}

}  // namespace edgedraft::netsim
