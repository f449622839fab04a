#include "netsim/report/plot.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>

#include "netsim/drivers/process.h"
#include "netsim/report/html.h"

namespace edgedraft::netsim {
namespace {

namespace fs = std::filesystem;

// Placeholder colours mapped to the page's text, grid and shade; series have red 1.
constexpr const char* kHeader =
    "set terminal svg size 480,320 dynamic font 'sans-serif,13' background '#020005'\n"
    "set border 3 lc rgb '#020001'\n"
    "set tics nomirror out textcolor rgb '#020001'\n"
    "set xlabel textcolor rgb '#020001' noenhanced\n"
    "set ylabel textcolor rgb '#020001' noenhanced\n"
    "set grid lc rgb '#020002' lw 0.5 dt 1\n"
    "unset key\n"
    "set bmargin 3.6\n"
    "set rmargin 4\n";

// Hues that also differ in brightness; one pair each for light and dark screens.
constexpr std::pair<const char*, const char*> kColours[kSeriesColours] = {
    {"#1f5fa8", "#7ab5f5"}, {"#c2410c", "#fb923c"}, {"#15803d", "#5fd08a"}, {"#7e22ce", "#c792ea"},
    {"#a16207", "#eac54f"}, {"#0e7490", "#4dd0e1"}, {"#be185d", "#f48fb1"}, {"#4d5562", "#b6bfcc"},
    {"#6b4f2a", "#cfae80"}, {"#4d7c0f", "#b5d95c"}};

std::string in_page_colours(std::string svg) {
  svg.erase(0, svg.find("<svg"));
  static const std::regex colour(R"((?:rgb\(\s*(\d+),\s*(\d+),\s*(\d+)\))|(?:#(0[12])00(0[0-9])))");
  std::string out;
  auto at = svg.cbegin();
  for (std::sregex_iterator it(svg.begin(), svg.end(), colour), end; it != end; ++it) {
    const std::smatch& m = *it;
    const bool rgb = m[1].matched;
    const int red = std::stoi(rgb ? m[1].str() : m[4].str());
    const int green = rgb ? std::stoi(m[2].str()) : 0;
    const int blue = std::stoi(rgb ? m[3].str() : m[5].str());
    out.append(at, m[0].first);
    at = m[0].second;
    if (green == 0 && red == 1) {
      out += "var(--series" + std::to_string(blue) + ')';
    } else if (green == 0 && red == 2) {
      out += blue == 1   ? "var(--text)"
             : blue == 2 ? "var(--grid)"
             : blue == 3 ? "var(--shade)"
                         : "none";
    } else {
      out += m[0].str();
    }
  }
  out.append(at, svg.cend());
  // Its own title would be read as the figure's.
  return std::regex_replace(out, std::regex("<title>Gnuplot</title>\\s*<desc>[^<]*</desc>"), "");
}

}  // namespace

std::string series_colour(std::size_t i) {
  char text[16];
  std::snprintf(text, sizeof text, "'#0100%02x'", static_cast<unsigned>(i % kSeriesColours));
  return text;
}

std::string quoted(const std::string& text) {
  // Inside double quotes, gnuplot would run text between backquotes.
  std::string safe = "'";
  for (const char c : text) {
    if (c == '\'') safe += '\'';
    if (c != '\n') safe += c;
  }
  return safe + '\'';
}

std::string tic_label(std::string text) {
  for (std::size_t at = 0; (at = text.find('%', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '%');
  }
  return netsim::quoted(text);  // not std::quoted
}

Result<std::string> draw(const Plot& plot) {
  const TemporaryFolder folder;
  const fs::path script = folder.path() / "plot.gp";
  const fs::path output = folder.path() / "plot.svg";
  std::ofstream(script) << kHeader << "set output " << quoted(output.string()) << '\n'
                        << plot.script << '\n';
  const fs::path errors = folder.path() / "errors";
  auto process = Process::start(
      {.argv = {"gnuplot", script.string()}, .output = "/dev/null", .errors = errors});
  if (!process) {
    return Error{Errc::unsupported,
                 "gnuplot not found; for plots, apt-get install gnuplot-nox, then run "
                 "`edgedraft-netsim report DIR` (results and tables are complete)"};
  }
  if (!process->wait_until(Clock::now() + std::chrono::minutes(2)) || process->status() != 0) {
    return Error{Errc::io, "gnuplot failed at '" + plot.title + "': " + last_line(errors)};
  }
  std::string html = "<figure><h3>" + escape(plot.title) + "</h3>";
  if (!plot.legend.empty()) {
    html += "<ul class=\"legend\">";
    for (const auto& [series, name] : plot.legend) {
      html += "<li><i style=\"background:var(--series" + std::to_string(series % kSeriesColours) +
              ")\"></i>" + escape(name) + "</li>";
    }
    html += "</ul>";
  }
  return html + "<div role=\"img\" aria-label=\"" + escape(plot.title) + "\">" +
         in_page_colours(read_output(output)) + "</div><figcaption>" + escape(plot.note) +
         "</figcaption></figure>\n";
}

std::string plot_style() {
  std::string light;
  std::string dark;
  for (std::size_t i = 0; i < kSeriesColours; ++i) {
    const std::string name = "--series" + std::to_string(i) + ':';
    light += name + kColours[i].first + ';';
    dark += name + kColours[i].second + ';';
  }
  return ":root{" + light + "}@media(prefers-color-scheme:dark){:root{" + dark + "}}";
}

}  // namespace edgedraft::netsim
