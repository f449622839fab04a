#include "netsim/report/aggregate.h"

#include <algorithm>
#include <limits>
#include <string>

namespace edgedraft::netsim {
namespace {

struct SharedWork {
  double tokens = 0;
  double seconds = 0;
};

// Tokens of a trial's clients while all of them were working, and the length of that time.
SharedWork work_together(const std::vector<const Run*>& clients) {
  if (clients.size() == 1) {
    return {.tokens = clients.front()->tokens, .seconds = clients.front()->seconds};
  }
  double last_asked = 0;
  double first_ended = std::numeric_limits<double>::infinity();
  for (const Run* run : clients) {
    if (run->arrivals.empty()) return {};
    last_asked = std::max(last_asked, run->asked_at_s);
    first_ended = std::min(first_ended, run->asked_at_s + run->arrivals.back().at_s);
  }
  SharedWork work{.tokens = 0, .seconds = first_ended - last_asked};
  for (const Run* run : clients) {
    for (const Arrival& arrival : run->arrivals) {
      const double at = run->asked_at_s + arrival.at_s;
      if (at > last_asked && at <= first_ended) work.tokens += arrival.tokens;
    }
  }
  return work;
}

}  // namespace

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

std::vector<std::pair<const Run*, const Run*>> matched(const std::vector<const Run*>& ours,
                                                       const std::vector<const Run*>& theirs) {
  std::map<std::string, const Run*> by_key;
  for (const Run* run : theirs) by_key[run->pair_key] = run;
  std::vector<std::pair<const Run*, const Run*>> pairs;
  for (const Run* run : ours) {
    const auto found = by_key.find(run->pair_key);
    if (found != by_key.end()) pairs.emplace_back(run, found->second);
  }
  return pairs;
}

std::vector<Pair> paired(const std::vector<const Run*>& ours, const std::vector<const Run*>& theirs,
                         const std::function<double(const Run&)>& figure) {
  std::vector<Pair> pairs;
  for (const auto& [our, their] : matched(ours, theirs)) {
    pairs.push_back({.group = our->prompt, .ours = figure(*our), .theirs = figure(*their)});
  }
  return pairs;
}

std::map<std::uint32_t, double> rates_together(const std::vector<const Run*>& runs) {
  std::map<std::string, std::vector<const Run*>> trials;
  for (const Run* run : uncut(runs)) trials[run->trial].push_back(run);
  std::map<std::uint32_t, SharedWork> all;
  for (const auto& [id, clients] : trials) {
    // A failed client would make the others look slow, or fast.
    if (clients.size() != clients.front()->clients) continue;
    const SharedWork work = work_together(clients);
    if (work.seconds <= 0) continue;
    all[clients.front()->clients].tokens += work.tokens;
    all[clients.front()->clients].seconds += work.seconds;
  }
  std::map<std::uint32_t, double> rates;
  for (const auto& [clients, work] : all) rates[clients] = work.tokens / work.seconds;
  return rates;
}

}  // namespace edgedraft::netsim
