#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::netsim {

// Distinct series colours; further series reuse them.
inline constexpr std::size_t kSeriesColours = 10;

// Name of series i's colour in a gnuplot script; the page maps it to a light and a dark colour.
std::string series_colour(std::size_t i);

struct Plot {
  std::string title;   // alternative text, and heading
  std::string note;    // below
  std::string script;  // gnuplot, without terminal and output
  // Legend entries by series; empty: no legend.
  std::vector<std::pair<std::size_t, std::string>> legend;
};

// A <figure> with the plot as inline SVG, in the page's colours.
//
// Errors    unsupported without gnuplot; io with gnuplot's message
Result<std::string> draw(const Plot& plot);

// Style sheet variables of the colours.
std::string plot_style();

// Quoted text for a script, safe from gnuplot's substitutions. It is shown verbatim if the script
// says noenhanced.
std::string quoted(const std::string& text);
// Like quoted(), for a tic label, which gnuplot treats as a format of the tic's value.
std::string tic_label(std::string text);

}  // namespace edgedraft::netsim
