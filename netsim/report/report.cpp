#include "netsim/report/report.h"

#include <algorithm>
#include <fstream>

#include "netsim/report/acceptance.h"
#include "netsim/report/html.h"
#include "netsim/report/sections.h"

namespace edgedraft::netsim {
namespace {

constexpr const char* kStyle =
    ":root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--soft:#57606a;--grid:#d8dee4;"
    "--shade:#f6d9b8;--card:#f6f8fa;--label:#9a3412}"
    "@media(prefers-color-scheme:dark){:root{--page:#14171b;--text:#e6e9ed;--soft:#9aa4af;"
    "--grid:#353b43;--shade:#5a3d1c;--card:#1d2127;--label:#fdba74}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:88rem;padding:1rem;background:var(--page);color:var(--text);"
    "font:16px/1.5 system-ui,sans-serif}"
    "h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.25rem;margin:2rem 0 .5rem}"
    "h3{font-size:1rem;margin:.2rem 0}p{max-width:48rem}"
    ".note,figcaption,small{color:var(--soft)}figcaption{font-size:.85rem}"
    ".label{color:var(--label)}"
    ".banner{border-left:4px solid var(--label);background:var(--card);padding:.5rem 1rem;"
    "max-width:48rem}"
    ".figures{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),"
    "1fr))}"
    "figure{margin:0;padding:.75rem;background:var(--card);border-radius:.5rem;min-width:0}"
    "figure svg{width:100%;height:auto;display:block}"
    ".legend{list-style:none;margin:.25rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.1rem .9rem;"
    "font-size:.85rem}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em;"
    "border-radius:2px}"
    ".scroll{overflow-x:auto;margin:1rem 0}"
    "table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;font-weight:600;padding-bottom:.3rem;white-space:nowrap}"
    "th,td{padding:.3rem .6rem;border-bottom:1px solid var(--grid);text-align:right;"
    "white-space:nowrap;vertical-align:top}"
    "th[scope=row],thead th:first-child{text-align:left;font-weight:500}"
    "#setup td,#failures td{text-align:left}"
    ".long{white-space:normal;overflow-wrap:anywhere}"
    ".prose{display:block;white-space:normal;min-width:16rem;max-width:40rem;text-align:left}"
    "pre{overflow-x:auto;background:var(--card);padding:.75rem;border-radius:.5rem;"
    "font-size:.8rem}";

// Warnings that precede all figures.
std::string banners(const RunData& data) {
  const auto& m = data.manifest;
  std::string html;
  const auto banner = [&](const std::string& text) {
    html += "<p class=\"banner\">" + text + "</p>\n";
  };
  if (m.value("paced", false)) {
    banner(
        "<b class=\"label\">Paced.</b> Small models were slowed to the times of larger ones on "
        "named hardware (the devices marked <i>paced</i> below). Times are emulated; text and "
        "acceptance are the small models' own.");
    banner(
        m.value("padded_payloads", false)
            ? "<b class=\"label\">Padded payloads.</b> Activations were padded with random bytes "
              "to the size of the larger model's, if its device profile states one."
            : "<b class=\"label\">Payloads of the small models.</b> Activations were not padded to "
              "the size of the larger model's, which would be slower than shown over a slow link.");
  }
  if (!m.value("timed", true)) {
    banner(
        "<b class=\"label\">Not timed.</b> Answers ran in parallel at the machine's own speed: "
        "compare their texts, not their times.");
  }
  if (m.value("synthetic", false)) {
    banner(
        "<b class=\"label\">Synthetic acceptance.</b> Arms with a fixed acceptance draft from "
        "the known answer and err on purpose: they show the link, not a drafter.");
  }
  const std::string driver = m.value("driver", std::string());
  bool beside = false;
  for (const auto& arm : m.value("arms", nlohmann::ordered_json::array())) {
    beside = beside || arm.value("beside_server", false);
  }
  if (driver == "loopback") {
    banner("<b class=\"label\">No link.</b> Run over loopback: no network was emulated.");
  }
  if (driver == "proxy") {
    banner(
        "<b class=\"label\">Approximate link.</b> A relay of the TCP stream replaced the network: "
        "losses and reordering are only imitated.");
  }
  if (driver == "tc" && std::any_of(data.runs.begin(), data.runs.end(),
                                    [](const Run& run) { return run.link_approximate; })) {
    banner(
        "<b class=\"label\">Approximate link.</b> The kernel's netem drew a delay per packet, also "
        "over networks whose delays last for a while (<code>hold_ms</code>).");
  }
  bool refused = false;
  for (const auto& line : data.calibrations) refused = refused || !line.value("accepted", true);
  if (refused) {
    banner(
        "<b class=\"label\">Out of tolerance.</b> A measured link differed from its profile; see "
        "Calibration.");
  }
  if (m.value("quick", false)) {
    banner(
        "<b class=\"label\">Quick run.</b> A check that the experiment works, with too few answers "
        "for conclusions.");
  }
  if (m.value("finished", nlohmann::ordered_json()).is_null()) {
    banner("<b class=\"label\">Unfinished.</b> Some answers of the experiment are missing.");
  }
  if (m.value("left_out", 0) > 0) {
    banner("<b class=\"label\">Skipped.</b> " + std::to_string(m.value("left_out", 0)) +
           " answers were skipped because their arm failed three times in a row; see Failures.");
  }
  if (beside) {
    banner(
        "Arms beside the server run their client at the server's end of the link, like a streaming "
        "server. One measured round trip is added to their times.");
  }
  return html;
}

std::string paragraphs(const std::string& text) {
  std::string html;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find("\n\n", at);
    if (end == std::string::npos) end = text.size();
    html += "<p>" + escape(text.substr(at, end - at)) + "</p>\n";
    at = end + 2;
  }
  return html;
}

}  // namespace

Result<Report> write_report(const std::filesystem::path& results) {
  const auto data = read_run_data(results);
  if (!data) return data.error();
  Report report{.file = results / "report.html", .undrawn = {}};
  std::string figures;
  for (const auto& make :
       {timeline_plots, round_trip_plots, phase_plots, gap_plots, capacity_plots}) {
    for (const Plot& plot : make(*data)) {
      const auto figure = draw(plot);
      if (figure) {
        figures += *figure;
        continue;
      }
      figures += "<figure><h3>" + escape(plot.title) +
                 "</h3><p class=\"label\">Not drawn: " + escape(figure.error().message) +
                 "</p></figure>\n";
      if (!report.undrawn) report.undrawn = figure.error();
    }
  }
  const auto& m = data->manifest;
  const std::string title = escape(m.value("title", std::string("Experiment")));
  const std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>" +
      title + "</title>\n<style>" + kStyle + plot_style() + "</style></head><body>\n<h1>" + title +
      "</h1>\n" + paragraphs(m.value("description", std::string())) + banners(*data) +
      published_section(*data) + cut_section(*data) + arms_section(*data) +
      acceptance_section(*data) + capacity_section(*data) + prediction_section(*data) +
      "<section id=\"plots\"><h2>Plots</h2><div class=\"figures\">\n" + figures +
      "</div></section>\n" + calibration_section(*data) + failure_section(*data) +
      summary_section(*data) + "<section id=\"source\"><h2>Experiment file</h2><pre>" +
      escape(m.value("experiment", std::string())) + "</pre></section>\n</body></html>\n";
  std::ofstream out(report.file, std::ios::binary | std::ios::trunc);
  out << html << std::flush;
  if (!out) {
    return Error{Errc::io, report.file.string() + ": cannot be written; is the disk full?"};
  }
  return report;
}

}  // namespace edgedraft::netsim
