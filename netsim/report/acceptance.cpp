#include "netsim/report/acceptance.h"

#include <algorithm>
#include <set>
#include <utility>

#include "netsim/report/aggregate.h"
#include "netsim/report/html.h"
#include "shared/base/random.h"

namespace edgedraft::netsim {
namespace {

constexpr std::uint64_t kPromptSeed = 20251;

// Tokens and cycles of a prompt's answers.
struct Sums {
  double tokens = 0;
  double cycles = 0;
};
using ByPrompt = std::map<std::string, Sums>;
using ByTask = std::map<std::string, ByPrompt>;

// Plain decoding has cycles too, of one token each.
bool drafted(const Run& run) {
  return run.cycles > 0 && run.drafted > 0;
}

ByTask sums_of(const std::vector<const Run*>& runs) {
  ByTask sums;
  for (const Run* run : runs) {
    if (!drafted(*run)) continue;
    Sums& sum = sums[run->task][run->prompt];
    sum.tokens += run->tau * run->cycles;
    sum.cycles += run->cycles;
  }
  return sums;
}

// A task's prompts that both arms answered, or all if there is no second arm.
struct Task {
  std::vector<Sums> ours;
  std::vector<Sums> theirs;
};

std::map<std::string, Task> tasks_of(const ByTask& ours, const ByTask* theirs) {
  std::map<std::string, Task> tasks;
  for (const auto& [name, prompts] : ours) {
    Task task;
    for (const auto& [prompt, sums] : prompts) {
      if (theirs) {
        const auto other = theirs->find(name);
        if (other == theirs->end()) continue;
        const auto same = other->second.find(prompt);
        if (same == other->second.end()) continue;
        task.theirs.push_back(same->second);
      }
      task.ours.push_back(sums);
    }
    if (!task.ours.empty()) tasks.emplace(name, std::move(task));
  }
  return tasks;
}

double length(const Sums& sums) {
  return sums.tokens / sums.cycles;
}

// The mean of the tasks, or its difference, with prompts drawn anew if `random` is given.
double mean_of_tasks(const std::map<std::string, Task>& tasks, Random* random) {
  double mean = 0;
  for (const auto& [name, task] : tasks) {
    Sums ours;
    Sums theirs;
    for (std::size_t i = 0; i < task.ours.size(); ++i) {
      const std::size_t at = random ? random->below(task.ours.size()) : i;
      ours.tokens += task.ours[at].tokens;
      ours.cycles += task.ours[at].cycles;
      if (task.theirs.empty()) continue;
      theirs.tokens += task.theirs[at].tokens;
      theirs.cycles += task.theirs[at].cycles;
    }
    mean += length(ours) - (task.theirs.empty() ? 0.0 : length(theirs));
  }
  return mean / static_cast<double>(tasks.size());
}

Estimate estimate_of(const std::map<std::string, Task>& tasks) {
  Estimate estimate;
  if (tasks.empty()) return estimate;
  bool enough = true;
  for (const auto& [name, task] : tasks) {
    estimate.pairs += task.ours.size();
    enough = enough && task.ours.size() >= kGroupsMin;
  }
  estimate.value = estimate.low = estimate.high = mean_of_tasks(tasks, nullptr);
  if (!enough) return estimate;
  add_interval(estimate, kPromptSeed,
               [&](Random& random) { return mean_of_tasks(tasks, &random); });
  return estimate;
}

std::string with_interval(const Estimate& e) {
  if (e.pairs == 0) return "–";  // no prompt that both arms answered
  std::string text = number(e.value);
  if (e.known) text += " [" + number(e.low) + "; " + number(e.high) + "]";
  return text;
}

}  // namespace

Acceptance acceptance_of(const std::vector<const Run*>& ours,
                         const std::vector<const Run*>& theirs) {
  const ByTask sums = sums_of(ours);
  Acceptance acceptance;
  for (const auto& [name, prompts] : sums) {
    Sums all;
    for (const auto& [prompt, sum] : prompts) {
      all.tokens += sum.tokens;
      all.cycles += sum.cycles;
    }
    acceptance.tasks[name] = length(all);
  }
  acceptance.mean = estimate_of(tasks_of(sums, nullptr));
  const ByTask others = sums_of(theirs);
  if (!others.empty()) acceptance.difference = estimate_of(tasks_of(sums, &others));
  return acceptance;
}

std::string acceptance_section(const RunData& data) {
  std::set<std::string> tasks;
  for (const Run& run : data.runs) {
    if (drafted(run) && !run.task.empty()) tasks.insert(run.task);
  }
  if (tasks.size() < 2) return {};
  std::string html;
  for (const std::string& setting : data.settings) {
    std::vector<std::string> head{"arm"};
    for (const std::string& task : tasks) head.push_back(escape(task));
    head.emplace_back("mean of the tasks");
    HtmlTable lengths(escape(setting), std::move(head));
    HtmlTable differences("Differences of the means", {"arm", "less", "difference"});
    std::vector<std::pair<std::string, std::vector<const Run*>>> before;
    for (const std::string& arm : data.arms) {
      auto runs = uncut(data.of(setting, arm));
      std::erase_if(runs, [](const Run* run) { return !drafted(*run); });
      if (runs.empty()) continue;
      const Acceptance acceptance = acceptance_of(runs, {});
      std::vector<std::string> row{escape(arm)};
      for (const std::string& task : tasks) {
        const auto found = acceptance.tasks.find(task);
        row.push_back(found == acceptance.tasks.end() ? "–" : number(found->second));
      }
      row.push_back(with_interval(acceptance.mean));
      lengths.row(std::move(row));
      for (const auto& [other, theirs] : before) {
        differences.row(
            {escape(arm), escape(other), with_interval(acceptance_of(runs, theirs).difference)});
      }
      before.emplace_back(arm, std::move(runs));
    }
    if (!lengths.empty()) html += lengths.html();
    if (!differences.empty()) html += differences.html();
  }
  if (html.empty()) return {};
  return "<section id=\"acceptance\"><h2>Acceptance by task</h2><p>Tokens per cycle, the target's "
         "own included. In brackets 95 % intervals from resampling prompts within each task, of "
         "differences in pairs.</p>" +
         html + "</section>\n";
}

}  // namespace edgedraft::netsim
