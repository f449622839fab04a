#include "netsim/report/acceptance.h"

#include <set>
#include <utility>

#include "netsim/report/aggregate.h"
#include "netsim/report/html.h"

namespace edgedraft::netsim {
namespace {

// Tokens and cycles per prompt.
using ByPrompt = std::map<std::string, RatioPart>;
using ByTask = std::map<std::string, ByPrompt>;

// Plain decoding has cycles too, of one token each.
bool drafted(const Run& run) {
  return run.cycles > 0 && run.drafted > 0;
}

ByTask sums_of(const std::vector<const Run*>& runs) {
  ByTask sums;
  for (const Run* run : runs) {
    if (!drafted(*run)) continue;
    RatioPart& sum = sums[run->task][run->prompt];
    sum.numerator += run->tau * run->cycles;
    sum.denominator += run->cycles;
  }
  return sums;
}

// Each task's prompts that both arms answered, or all if there is no second arm.
std::vector<RatioTask> tasks_of(const ByTask& ours, const ByTask* theirs) {
  std::vector<RatioTask> tasks;
  for (const auto& [name, prompts] : ours) {
    RatioTask task;
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
    if (!task.ours.empty()) tasks.push_back(std::move(task));
  }
  return tasks;
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
    RatioPart all;
    for (const auto& [prompt, sum] : prompts) all.add(sum);
    acceptance.tasks[name] = all.numerator / all.denominator;
  }
  acceptance.mean = mean_ratio_of(tasks_of(sums, nullptr));
  const ByTask others = sums_of(theirs);
  if (!others.empty()) acceptance.difference = mean_ratio_of(tasks_of(sums, &others));
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
    HtmlTable differences("Differences of the means", {"arm", "minus", "difference"});
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
  return "<section id=\"acceptance\"><h2>Acceptance by task</h2><p>Tokens per cycle, including the "
         "target's own. In brackets: 95 % intervals from resampling prompts within each task; for "
         "differences, in pairs.</p>" +
         html + "</section>\n";
}

}  // namespace edgedraft::netsim
