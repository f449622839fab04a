#include "netsim/report/sections.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "netsim/report/aggregate.h"
#include "netsim/report/html.h"
#include "netsim/report/statistics.h"

namespace edgedraft::netsim {
namespace {

using nlohmann::ordered_json;

std::string cell_text(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return "–";
  return escape(found->is_string() ? found->get<std::string>() : found->dump());
}

std::string baseline_of(const RunData& data) {
  const auto found = data.manifest.find("baseline");
  return found != data.manifest.end() && found->is_string() ? found->get<std::string>()
                                                            : std::string();
}

std::string interval(const Estimate& e) {
  if (e.pairs == 0) return "–";
  std::string cell = "×" + number(e.value);
  if (e.known) cell += " <small>[" + number(e.low) + "; " + number(e.high) + "]</small>";
  return cell;
}

// True if answer times are meaningful: false for untimed experiments and without a link.
bool times_count(const RunData& data) {
  return data.manifest.value("timed", true) &&
         data.manifest.value("driver", std::string()) != "loopback";
}

// The ratio of tokens per second.
Estimate speed_ratio(const RunData& data, const std::vector<const Run*>& ours,
                     const std::vector<const Run*>& theirs) {
  return times_count(data) ? ratio_of(paired(ours, theirs, &Run::rate)) : Estimate{};
}

// True if the device wrote text that the target would not have written.
bool says_something_else(const std::vector<const Run*>& ours,
                         const std::vector<const Run*>& theirs) {
  return std::ranges::any_of(ours, &Run::local) ||
         std::ranges::any_of(matched(ours, theirs), [](const auto& pair) {
           return pair.first->offline_tokens > 0 && pair.second->answer != pair.first->answer;
         });
}

// "faster", "slower", or the reason why neither is claimed.
std::string claim(const RunData& data, const Estimate& e, bool another_text) {
  if (e.pairs == 0) return "–";
  if (another_text) return "<small>different text</small>";
  if (data.manifest.value("quick", false)) return "<small>quick run</small>";
  if (!e.known) return "<small>too few prompts</small>";
  if (!e.claims(1)) return "<small>no claim</small>";
  return e.low > 1 ? "faster" : "slower";
}

std::string percent(double share) {
  return number(100 * share) + " %";
}

// Count of answers equal to the baseline's, word for word.
std::string agreement(const std::vector<const Run*>& ours, const std::vector<const Run*>& theirs) {
  const auto both = matched(ours, theirs);
  const auto same = std::ranges::count_if(
      both, [](const auto& pair) { return pair.first->answer == pair.second->answer; });
  return both.empty() ? "–" : std::to_string(same) + " of " + std::to_string(both.size());
}

const ordered_json* published_rows(const RunData& data) {
  const auto published = data.manifest.find("published");
  if (published == data.manifest.end() || !published->contains("rows")) return nullptr;
  return (*published)["rows"].empty() ? nullptr : &*published;
}

std::optional<double> given(const ordered_json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string ratio_cell(std::optional<double> value, double base) {
  return value && base > 0 ? "×" + number(*value / base) : std::string("–");
}

std::set<std::uint32_t> cuts_of(const RunData& data) {
  std::set<std::uint32_t> cuts;
  for (const Run& run : data.runs) {
    if (run.offline_after) cuts.insert(*run.offline_after);
  }
  return cuts;
}

std::vector<const Run*> with_cut(const std::vector<const Run*>& runs,
                                 std::optional<std::uint32_t> cut) {
  std::vector<const Run*> kept;
  for (const Run* run : good(runs)) {
    if (run->offline_after == cut && run->right) kept.push_back(run);
  }
  return kept;
}

double success(const std::vector<const Run*>& runs) {
  std::size_t right = 0;
  for (const Run* run : runs) right += *run->right ? 1 : 0;
  return runs.empty() ? 0 : static_cast<double>(right) / static_cast<double>(runs.size());
}

}  // namespace

std::string summary_section(const RunData& data) {
  const ordered_json& m = data.manifest;
  std::string html = "<section id=\"setup\"><h2>Setup</h2>";
  HtmlTable table("Measurement", {"", ""});
  for (const auto& [label, key] : std::initializer_list<std::pair<const char*, const char*>>{
           {"started", "started"},
           {"finished", "finished"},
           {"commit", "commit"},
           {"program", "program"},
           {"link driver", "driver"},
           {"TCP slow start after idle", "tcp_slow_start_after_idle"},
           {"kernel", "kernel"},
           {"iproute2", "iproute2"},
           {"CPU", "cpu"},
           {"cores", "cores"},
           {"GPU", "gpu"},
           {"seeds", "seeds"},
           {"repetitions", "repetitions"},
           {"prompts", "prompts"},
           {"maximum answer, tokens", "max_tokens"},
           {"temperature", "temperature"},
           {"experiment", "experiment_file"},
           {"SHA-256 of all inputs", "experiment_sha256"}}) {
    table.row({label, "<span class=\"long\">" + cell_text(m, key) + "</span>"});
  }
  html += table.html();
  HtmlTable inputs("Networks, devices and models", {"", "description", "SHA-256"});
  for (const auto& network : m.value("networks", ordered_json::array())) {
    inputs.row({"network " + cell_text(network, "name"),
                "<span class=\"prose\">" + cell_text(network, "source") +
                    " TCP congestion control: " + cell_text(network, "congestion_control") +
                    ".</span>",
                "<code>" + cell_text(network, "sha256").substr(0, 12) + "</code>"});
  }
  for (const auto& device : m.value("devices", ordered_json::array())) {
    inputs.row({"device " + cell_text(device, "name") +
                    (device.value("paced", false) ? " <b class=\"label\">paced</b>" : ""),
                "<span class=\"prose\">" + cell_text(device, "description") + "</span>",
                "<code>" + cell_text(device, "sha256").substr(0, 12) + "</code>"});
  }
  const ordered_json models = m.value("models", ordered_json::object());
  for (const auto& [name, hash] : models.items()) {
    inputs.row({"model " + escape(name), "",
                "<code>" + escape(hash.get<std::string>().substr(0, 12)) + "</code>"});
  }
  return html + inputs.html() + "</section>\n";
}

std::string arms_section(const RunData& data) {
  const std::string baseline = baseline_of(data);
  std::string html = "<section id=\"arms\"><h2>Arms</h2><p>Means over answers. ";
  if (times_count(data)) {
    html += "The ratio compares tokens per second with ";
    html += baseline.empty() ? "no baseline" : "<b>" + escape(baseline) + "</b>";
    html +=
        ": the geometric mean over pairs (same prompt, seed and repetition), with a 95 % interval "
        "from resampling prompts. No claim is made if the interval contains 1, with fewer than "
        "five prompts, in a quick run, or if a device without its server wrote a different text "
        "than the baseline. ";
  } else {
    html += "No speeds are compared: answers were not timed over a link. ";
  }
  html += "Gaps are the times between visible updates.</p>";
  const bool any_offline = std::ranges::any_of(data.runs, [](const Run& run) {
    return run.clients <= 1 && run.offline_tokens > 0 && !run.offline_after;
  });
  std::vector<std::string> head{"arm", "answers", "tokens/s"};
  if (any_offline) head.emplace_back("written offline");
  for (const char* column : {"ratio", "claim", "tau", "target calls", "first token",
                             "gap p50 / p95 / p99", "stalls &gt; 1 s", "B up / down per token",
                             "activations sent / raw", "resent", "late", "same text"}) {
    head.emplace_back(column);
  }
  std::string tables;
  for (const std::string& setting : data.settings) {
    HtmlTable table(escape(setting), head);
    for (const std::string& arm : data.arms) {
      auto asked = data.of(setting, arm);
      // Concurrent clients and cut links have their own tables.
      std::erase_if(asked, [](const Run* run) { return run->clients > 1 || run->offline_after; });
      if (asked.empty()) continue;
      const auto runs = good(asked);
      const std::size_t failed = asked.size() - runs.size();
      std::vector<std::string> cells{escape(arm), std::to_string(runs.size())};
      if (failed > 0) cells.back() += ", " + std::to_string(failed) + " failed";
      if (runs.empty()) {
        cells.resize(head.size(), "–");
        table.row(std::move(cells));
        continue;
      }
      auto base = uncut(data.of(setting, baseline));
      const Estimate ratio = speed_ratio(data, runs, base);
      double tokens = 0, up = 0, down = 0, raw = 0, sent = 0, stalls = 0, resent = 0, late = 0;
      double offline = 0;
      for (const Run* run : runs) {
        tokens += run->tokens;
        offline += run->offline_tokens;
        up += run->bytes_up;
        down += run->bytes_down;
        raw += run->activation_raw;
        sent += run->activation_sent;
        stalls += run->stalls;
        resent += run->retransmits;
        late += run->late;
      }
      const bool is_base = arm == baseline;
      cells.push_back(number(mean_of(runs, &Run::rate)));
      if (any_offline) cells.push_back(offline > 0 ? percent(offline / tokens) : "–");
      cells.push_back(is_base && times_count(data) ? "1" : interval(ratio));
      cells.push_back(is_base ? "–" : claim(data, ratio, says_something_else(runs, base)));
      cells.push_back(number(mean_of(runs, &Run::tau)));
      cells.push_back(number(mean_of(runs, &Run::calls)));
      cells.push_back(number(1000 * mean_of(runs, &Run::first_token_s)) + " ms");
      cells.push_back(number(mean_of(runs, &Run::gap_p50)) + " / " +
                      number(mean_of(runs, &Run::gap_p95)) + " / " +
                      number(mean_of(runs, &Run::gap_p99)) + " ms");
      cells.push_back(count(stalls));
      cells.push_back(number(up / tokens) + " / " + number(down / tokens));
      cells.push_back(raw > 0 ? percent(sent / raw) : "–");
      cells.push_back(count(resent));
      cells.push_back(count(late));
      cells.push_back(is_base ? "–" : agreement(runs, base));
      table.row(std::move(cells));
    }
    if (!table.empty()) tables += table.html();
  }
  if (tables.empty()) return {};
  html += tables + "<p class=\"note\">";
  if (any_offline) {
    html +=
        "written offline: share of tokens that the device wrote without the server, checked later "
        "or not. ";
  }
  return html +
         "tau: tokens per cycle, including the target's own; plain decoding has 1. resent: TCP "
         "segments that the device sent again. late: passes and drafts that exceeded their pace; "
         "each distorts the result. same text: answers equal to the baseline's.</p></section>\n";
}

std::string published_section(const RunData& data) {
  const ordered_json* published = published_rows(data);
  if (!published || !cuts_of(data).empty()) return {};
  const std::string baseline = baseline_of(data);
  const double plain_rate = (*published).value("plain_tokens_per_second", 0.0);
  const double plain_calls = (*published).value("plain_target_calls", 0.0);
  HtmlTable table("Ratios to plain decoding, measured and published",
                  {"network", "arm", "tokens/s, measured", "tokens/s, published", "tau, measured",
                   "tau, published", "target calls, measured", "target calls, published"});
  for (const ordered_json& row : (*published)["rows"]) {
    const std::string arm = row.value("arm", std::string());
    const std::string network =
        row.contains("network") && row["network"].is_string() ? row["network"] : ordered_json("");
    for (const std::string& setting : data.settings) {
      const auto runs = uncut(data.of(setting, arm));
      if (runs.empty() || (!network.empty() && runs.front()->network != network)) continue;
      const auto base = uncut(data.of(setting, baseline));
      std::vector<Pair> calls = paired(runs, base, &Run::calls);
      table.row({escape(setting), escape(arm), interval(speed_ratio(data, runs, base)),
                 ratio_cell(given(row, "tokens_per_second"), plain_rate),
                 number(mean_of(runs, &Run::tau)),
                 given(row, "acceptance_length") ? number(*given(row, "acceptance_length")) : "–",
                 interval(ratio_of(calls)), ratio_cell(given(row, "target_calls"), plain_calls)});
    }
  }
  if (table.empty()) return {};
  return "<section id=\"published\"><h2>Comparison with published figures</h2><p>Published: " +
         cell_text(*published, "source") +
         ". Models and hardware differ: compare ratios, not absolute figures.</p>" + table.html() +
         "</section>\n";
}

std::string cut_section(const RunData& data) {
  const auto cuts = cuts_of(data);
  if (cuts.empty()) return {};
  std::string stop;
  for (const auto& arm : data.manifest.value("arms", ordered_json::array())) {
    if (arm.value("kind", std::string()) == "stop") stop = arm.value("name", std::string());
  }
  std::vector<std::string> head{"arm"};
  for (const std::uint32_t cut : cuts) head.push_back("B = " + std::to_string(cut));
  head.push_back("never");
  std::string html =
      "<section id=\"cut\"><h2>Success after the link was cut</h2><p>The link is cut after B "
      "tokens of an answer, and the drafter writes the rest. Success: the answer equals the "
      "task's, word for word. In brackets: the gain over ending at B in percentage points, with "
      "its 95 % interval over prompts. No gain is shown if the interval contains 0, or in a quick "
      "run.</p>";
  for (const std::string& setting : data.settings) {
    HtmlTable table(escape(setting), head);
    for (const std::string& arm : data.arms) {
      const auto runs = data.of(setting, arm);
      std::vector<std::string> cells{escape(arm)};
      bool any = false;
      for (const std::uint32_t cut : cuts) {
        const auto ours = with_cut(runs, cut);
        any = any || !ours.empty();
        if (ours.empty()) {
          cells.push_back("–");
          continue;
        }
        std::string cell = percent(success(ours));
        if (arm != stop && !stop.empty()) {
          const Estimate more =
              difference_of(paired(ours, with_cut(data.of(setting, stop), cut),
                                   [](const Run& run) { return *run.right ? 100.0 : 0.0; }));
          if (data.manifest.value("quick", false)) {
            cell += " <small>[quick run]</small>";
          } else if (more.claims(0)) {
            cell += " <small>[" + number(more.value) + "; " + number(more.low) + " to " +
                    number(more.high) + "]</small>";
          } else {
            cell += " <small>[no claim]</small>";
          }
        }
        cells.push_back(cell);
      }
      const auto whole = with_cut(runs, std::nullopt);
      cells.push_back(whole.empty() ? "–" : percent(success(whole)));
      if (any || !whole.empty()) table.row(cells);
    }
    html += table.html();
  }
  if (const ordered_json* published = published_rows(data)) {
    HtmlTable table("Published: " + cell_text(*published, "source"), head);
    std::vector<std::string> names;
    for (const auto& row : (*published)["rows"]) {
      const std::string name = row.value("arm", std::string());
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    for (const std::string& name : names) {
      std::vector<std::string> cells{escape(name)};
      const auto cell_of = [&](std::optional<double> cut) {
        for (const auto& row : (*published)["rows"]) {
          if (row.value("arm", std::string()) == name && given(row, "offline_after") == cut &&
              given(row, "success_percent")) {
            return number(*given(row, "success_percent")) + " %";
          }
        }
        return std::string("–");
      };
      for (const std::uint32_t cut : cuts) cells.push_back(cell_of(cut));
      cells.push_back(cell_of(std::nullopt));
      table.row(cells);
    }
    html += table.html() +
            "<p class=\"note\">Tasks and models differ: compare only how much a drafter that "
            "continues gains over ending at B.</p>";
  }
  return html + "</section>\n";
}

std::string capacity_section(const RunData& data) {
  std::set<std::uint32_t> counts;
  for (const Run& run : data.runs) counts.insert(run.clients);
  if (counts.empty() || *counts.rbegin() < 2) return {};
  const std::string baseline = baseline_of(data);
  std::string html =
      "<section id=\"capacity\"><h2>Many clients</h2><p>Tokens per second of all clients together, "
      "while all clients of a trial were active. In small print: tokens per second of one client "
      "over its whole answer.</p>";
  std::vector<std::string> head{"arm"};
  for (const std::uint32_t count : counts) {
    head.push_back(std::to_string(count) + (count == 1 ? " client" : " clients"));
  }
  for (const std::string& setting : data.settings) {
    HtmlTable table(escape(setting), head);
    for (const std::string& arm : data.arms) {
      const auto runs = data.of(setting, arm);
      const auto rates = rates_together(runs);
      std::vector<std::string> cells{escape(arm)};
      for (const std::uint32_t count : counts) {
        const auto found = rates.find(count);
        std::vector<double> each;
        std::size_t failed = 0;
        for (const Run* run : runs) {
          if (run->clients != count || run->offline_after) continue;
          if (run->failure.empty()) {
            each.push_back(run->rate);
          } else {
            ++failed;
          }
        }
        std::string cell = found == rates.end() ? "–" : number(found->second);
        if (!each.empty()) cell += " <small>" + number(mean(each)) + "</small>";
        if (failed > 0) cell += ", " + std::to_string(failed) + " failed";
        cells.push_back(cell);
      }
      table.row(cells);
    }
    html += table.html();
  }
  return html + "</section>\n";
}

std::string prediction_section(const RunData& data) {
  constexpr double kNear = 0.1;
  std::size_t cells = 0;
  std::size_t near = 0;
  HtmlTable table(
      "Tokens per second, measured and predicted",
      {"link and device", "arm", "answers", "measured", "predicted", "measured / predicted"});
  for (const std::string& setting : data.settings) {
    for (const std::string& arm : data.arms) {
      std::vector<const Run*> runs = uncut(data.of(setting, arm));
      std::erase_if(runs, [](const Run* run) { return run->predicted_rate <= 0; });
      if (runs.empty()) continue;
      const double measured = mean_of(runs, &Run::rate);
      const double foreseen = mean_of(runs, &Run::predicted_rate);
      ++cells;
      near += std::abs(measured / foreseen - 1) <= kNear ? 1 : 0;
      table.row({escape(setting), escape(arm), std::to_string(runs.size()), number(measured),
                 number(foreseen), "×" + number(measured / foreseen)});
    }
  }
  if (cells == 0) return {};
  return "<section id=\"prediction\"><h2>Prediction</h2><p>A simulation of both ends predicts "
         "these rates from the link's distributions, the device's times and the probability that a "
         "draft is right, without data of these runs. " +
         std::to_string(near) + " of " + std::to_string(cells) +
         " are within 10 % of the prediction.</p>" + table.html() + "</section>\n";
}

std::string calibration_section(const RunData& data) {
  HtmlTable table("Links measured before and after their answers",
                  {"link", "when", "driver", "round trip, median", "expected", "p5 to p95",
                   "up / expected", "down / expected", "result"});
  const auto cell = [](const ordered_json& line, const char* key, const char* unit) {
    const auto value = given(line, key);
    return value ? number(*value) + unit : std::string("–");
  };
  const auto rate = [&](const ordered_json& line, const std::string& way) {
    const double expected = line.value(way + "_mbit_s_expected", 0.0);
    if (expected == 0 || line.value("driver", std::string()) == "loopback") {
      return std::string("not checked");
    }
    return number(line.value(way + "_mbit_s", 0.0)) + " / " + number(expected) + " Mbit/s";
  };
  for (const ordered_json& line : data.calibrations) {
    table.row(
        {cell_text(line, "stage"), cell_text(line, "when"), cell_text(line, "driver"),
         cell(line, "round_trip_ms_median", " ms"), cell(line, "round_trip_ms_expected", " ms"),
         cell(line, "round_trip_ms_p05", "") + " to " + cell(line, "round_trip_ms_p95", " ms"),
         rate(line, "up"), rate(line, "down"),
         "<span class=\"prose\">" + cell_text(line, "result") + "</span>"});
  }
  if (table.empty()) return {};
  return "<section id=\"calibration\"><h2>Calibration</h2>" + table.html() + "</section>\n";
}

std::string failure_section(const RunData& data) {
  HtmlTable table("Answers that failed; no figure above counts them",
                  {"arm", "link", "prompt", "error"});
  for (const Run& run : data.runs) {
    if (run.failure.empty()) continue;
    table.row({escape(run.arm), escape(run.setting), escape(run.prompt), escape(run.failure)});
  }
  if (table.empty()) return {};
  return "<section id=\"failures\"><h2>Failures</h2>" + table.html() + "</section>\n";
}

}  // namespace edgedraft::netsim
