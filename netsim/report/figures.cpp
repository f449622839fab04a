#include "netsim/report/sections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>

#include "netsim/report/aggregate.h"
#include "netsim/report/statistics.h"
#include "shared/base/percentile.h"

namespace edgedraft::netsim {
namespace {

constexpr std::size_t kCurvePoints = 160;

// A plot's series, each with rows and colour.
class Series {
 public:
  // `style` is gnuplot's.
  void add(std::size_t i, std::string name, const std::string& rows, const std::string& style) {
    const std::string block = "$p" + std::to_string(i);
    blocks_ += block + " << EOD\n" + rows + "EOD\n";
    lines_ +=
        (lines_.empty() ? "plot " : ", ") + block + ' ' + style + " lc rgb " + series_colour(i);
    legend_.emplace_back(i, std::move(name));
  }
  bool empty() const { return legend_.empty(); }
  Plot plot(std::string title, std::string note, const std::string& settings) const {
    return {.title = std::move(title),
            .note = std::move(note),
            .script = blocks_ + settings + lines_,
            .legend = legend_};
  }

 private:
  std::string blocks_;
  std::string lines_;
  std::vector<std::pair<std::size_t, std::string>> legend_;
};

constexpr const char* kPoints = "with linespoints lw 2 pt 7 ps 0.7";

// In ms; empty if the link could not be measured.
std::optional<double> measured_round_trip(const RunData& data, const std::string& setting) {
  std::vector<double> values;
  for (const auto& line : data.calibrations) {
    const std::string stage = line.value("stage", std::string());
    const std::size_t network = stage.find('|');
    const std::size_t device = stage.rfind('|');
    if (network == std::string::npos || network == device) continue;
    const std::string of =
        stage.substr(0, network) + " · " + stage.substr(network + 1, device - network - 1);
    if (of == setting && line.contains("round_trip_ms_median")) {
      values.push_back(line["round_trip_ms_median"].get<double>());
    }
  }
  if (values.empty()) return std::nullopt;
  return mean(values);
}

// Outages of an answer's link, relative to its request; event times are relative to the client's
// start. A new address ends no outage.
std::vector<std::pair<double, double>> outages_in(const Run& run, double end_ms) {
  std::vector<std::pair<double, double>> spans;
  for (const auto& event : run.events) {
    const std::string kind = event.value("kind", std::string());
    if (kind != "down" && kind != "up") continue;
    const double at = event.value("at_ms", 0.0) - 1000 * run.asked_at_s;
    if (!spans.empty()) spans.back().second = std::min(spans.back().second, at);
    if (kind == "up") continue;
    const double duration = event.value("duration_ms", 0.0);
    spans.emplace_back(at, duration > 0 ? at + duration : end_ms);
  }
  std::erase_if(spans, [](const auto& span) { return span.second <= 0; });
  for (auto& [from, to] : spans) from = std::max(from, 0.0);
  return spans;
}

// Outages of the timelines' answers: the link's events, else the client's own offline times.
std::vector<std::pair<double, double>> outages_of(const RunData& data, const std::string& setting,
                                                  double end_ms) {
  std::vector<std::pair<double, double>> spans;
  for (const std::string& arm : data.arms) {
    const auto run = data.timeline_runs.find({setting, arm});
    if (run == data.timeline_runs.end() || data.runs[run->second].local) continue;
    spans = outages_in(data.runs[run->second], end_ms);
    if (!spans.empty()) return spans;
  }
  for (const std::string& arm : data.arms) {
    const auto run = data.timeline_runs.find({setting, arm});
    if (run == data.timeline_runs.end() || data.runs[run->second].local) continue;
    const auto moments = data.timelines.find({setting, arm});
    if (moments == data.timelines.end()) continue;
    double since = -1;
    for (const Moment& moment : moments->second) {
      if (moment.state == "offline" && since < 0) since = moment.at_ms;
      if (!moment.state.empty() && moment.state != "offline" && since >= 0) {
        spans.emplace_back(since, moment.at_ms);
        since = -1;
      }
    }
    if (since >= 0) spans.emplace_back(since, end_ms);
    if (!spans.empty()) return spans;
  }
  return spans;
}

}  // namespace

std::vector<Plot> round_trip_plots(const RunData& data) {
  std::set<std::string> devices;
  for (const Run& run : data.runs) devices.insert(run.device);
  std::vector<Plot> plots;
  for (const std::string& device : devices) {
    Series series;
    std::size_t links = 0;
    bool all_measured = true;
    for (std::size_t i = 0; i < data.arms.size(); ++i) {
      std::vector<std::pair<double, double>> points;
      for (const std::string& setting : data.settings) {
        const auto runs = uncut(data.of(setting, data.arms[i]));
        if (runs.empty() || runs.front()->device != device) continue;
        const auto round_trip_ms = measured_round_trip(data, setting);
        all_measured = all_measured && round_trip_ms;
        if (round_trip_ms) points.emplace_back(*round_trip_ms, mean_of(runs, &Run::rate));
      }
      if (points.empty()) continue;
      links = std::max(links, points.size());
      std::sort(points.begin(), points.end());
      std::ostringstream rows;
      for (const auto& [x, y] : points) rows << x << ' ' << y << '\n';
      series.add(i, data.arms[i], rows.str(), kPoints);
    }
    if (links < 2) continue;
    std::string note =
        "Each point is the mean over all answers of a link, at the median round trip measured "
        "before and after them.";
    if (!all_measured) note += " Links that could not be measured are omitted.";
    plots.push_back(series.plot("Tokens per second against the round trip, " + device, note,
                                "set xlabel 'round trip, ms'\nset ylabel 'tokens/s'\n"
                                "set yrange [0:*]\nset offsets graph 0.05, graph 0.05, 0, 0\n"));
  }
  return plots;
}

std::vector<Plot> phase_plots(const RunData& data) {
  std::vector<Plot> plots;
  for (const std::string& setting : data.settings) {
    std::string names;
    std::array<std::ostringstream, kPhaseNames.size()> phase_rows;
    std::size_t bars = 0;
    double longest = 0;
    for (const std::string& arm : data.arms) {
      const auto runs = uncut(data.of(setting, arm));
      double tokens = 0;
      for (const Run* run : runs) tokens += run->tokens;
      if (tokens == 0) continue;
      double left = 0;
      for (std::size_t phase = 0; phase < kPhaseNames.size(); ++phase) {
        double sum = 0;
        for (const Run* run : runs) sum += std::max(0.0, run->phases[phase]);
        const double width = sum / tokens;
        // A box: centre, row, then its four edges.
        phase_rows[phase] << left << ' ' << bars << ' ' << left << ' ' << left + width << ' '
                          << static_cast<double>(bars) - 0.35 << ' '
                          << static_cast<double>(bars) + 0.35 << '\n';
        left += width;
      }
      longest = std::max(longest, left);
      names += (bars > 0 ? ", " : "") + tic_label(arm) + ' ' + std::to_string(bars);
      ++bars;
    }
    if (bars == 0) continue;
    // Names on the left leave room for few tic labels below.
    const double step = std::pow(10, std::floor(std::log10(std::max(longest, 1e-3))));
    const double tics = longest / step < 2 ? step / 2 : longest / step < 5 ? step : 2 * step;
    Series series;
    for (std::size_t phase = 0; phase < kPhaseNames.size(); ++phase) {
      series.add(phase, kPhaseNames[phase], phase_rows[phase].str(),
                 "using 1:2:3:4:5:6 with boxxyerror fs solid 1 noborder");
    }
    plots.push_back(series.plot(
        "Time per token by phase, " + setting,
        "Drafting, packing and unpacking are measured on the device's clock; queue, held (the "
        "server waits for hints) and verification on the server's. Network is the rest of the "
        "round trip. The time before the first draft is included. If the server does not wait for "
        "drafts, drafting overlaps the other phases, and a bar may exceed the time of a token.",
        "set xlabel 'ms per token'\n"
        "set ytics (" +
            names + ") noenhanced\nset yrange [" + std::to_string(bars) +
            "-0.4:-0.6]\nset xrange [0:*]\nset xtics " + std::to_string(tics) +
            "\nset grid noytics\n"));
  }
  return plots;
}

std::vector<Plot> gap_plots(const RunData& data) {
  std::vector<Plot> plots;
  for (const std::string& setting : data.settings) {
    Series series;
    for (std::size_t i = 0; i < data.arms.size(); ++i) {
      const auto found = data.gaps.find({setting, data.arms[i]});
      if (found == data.gaps.end() || found->second.empty()) continue;
      std::ostringstream rows;
      for (std::size_t point = 0; point <= kCurvePoints; ++point) {
        const double q = static_cast<double>(point) / kCurvePoints;
        rows << std::max(0.1, percentile(found->second, q)) << ' ' << 100 * q << '\n';
      }
      series.add(i, data.arms[i], rows.str(), "with lines lw 2");
    }
    if (series.empty()) continue;
    plots.push_back(series.plot("Gaps between visible updates, " + setting,
                                "Share of gaps up to each length. An update may bring several "
                                "tokens. Answers with a deliberately cut link are omitted.",
                                "set logscale x\nset xlabel 'gap, ms'\n"
                                "set ylabel '% of gaps'\nset yrange [0:100]\n"));
  }
  return plots;
}

std::vector<Plot> timeline_plots(const RunData& data) {
  std::vector<Plot> plots;
  for (const std::string& setting : data.settings) {
    Series series;
    double end_ms = 0;
    double tokens = 0;
    std::string prompt;
    for (std::size_t i = 0; i < data.arms.size(); ++i) {
      const auto found = data.timelines.find({setting, data.arms[i]});
      if (found == data.timelines.end()) continue;
      std::ostringstream rows;
      std::size_t points = 0;
      for (const Moment& moment : found->second) {
        if (!moment.state.empty()) continue;
        rows << moment.at_ms / 1000 << ' ' << moment.answer_tokens << '\n';
        end_ms = std::max(end_ms, moment.at_ms);
        tokens = std::max(tokens, moment.answer_tokens);
        ++points;
      }
      if (points == 0) continue;
      prompt = data.runs[data.timeline_runs.at({setting, data.arms[i]})].prompt;
      series.add(i, data.arms[i], rows.str(), "with steps lw 2");
    }
    if (series.empty()) continue;
    std::ostringstream shades;
    int shade = 0;
    const auto outages = outages_of(data, setting, end_ms);
    for (const auto& [from, to] : outages) {
      shades << "set object " << ++shade << " rectangle from " << from / 1000 << ", graph 0 to "
             << std::min(to, end_ms) / 1000
             << ", graph 1 behind fs solid 1 noborder fc rgb '#020003'\n";
    }
    std::string note = "Answers to one prompt, " + prompt + ", from the request on.";
    if (!outages.empty()) note += " Shaded: the link is down, or the device considers it down.";
    plots.push_back(series.plot("An answer over time, " + setting, note,
                                shades.str() +
                                    "set xlabel 'seconds'\nset ylabel 'tokens'\nset xrange [0:*]\n"
                                    "set yrange [0:*]\n"));
  }
  return plots;
}

std::vector<Plot> capacity_plots(const RunData& data) {
  std::vector<Plot> plots;
  for (const std::string& setting : data.settings) {
    Series series;
    std::size_t counts = 0;
    for (std::size_t i = 0; i < data.arms.size(); ++i) {
      const auto rates = rates_together(data.of(setting, data.arms[i]));
      if (rates.empty()) continue;
      counts = std::max(counts, rates.size());
      std::ostringstream rows;
      for (const auto& [clients, rate] : rates) rows << clients << ' ' << rate << '\n';
      series.add(i, data.arms[i], rows.str(), kPoints);
    }
    if (counts < 2) continue;
    plots.push_back(series.plot("Tokens per second of the server, " + setting,
                                "Tokens of all clients together, while all of them were active: "
                                "from the last client's request to the first client's end.",
                                "set logscale x 2\n"
                                "set xlabel 'clients'\n"
                                "set ylabel 'tokens/s of all clients'\n"
                                "set yrange [0:*]\n"));
  }
  return plots;
}

}  // namespace edgedraft::netsim
