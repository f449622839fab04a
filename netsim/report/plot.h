#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::netsim {

// How many series have a colour of their own; more begin again.
inline constexpr std::size_t kSeriesColours = 10;

// What a gnuplot script calls the colour of series i; the page gives it one for light and one for
// dark screens.
std::string series_colour(std::size_t i);

struct Plot {
  std::string title;   // for who cannot see it, and above it
  std::string note;    // below
  std::string script;  // gnuplot, without terminal and output
  // Names beside their colours, by series; empty: no legend.
  std::vector<std::pair<std::size_t, std::string>> legend;
};

// A <figure> with the plot as inline SVG, in the page's colours.
//
// Errors    unsupported where gnuplot is missing; io with gnuplot's words
Result<std::string> draw(const Plot& plot);

// The style sheet's variables that the colours come from.
std::string plot_style();

// Text for a script, in quotes that gnuplot finds nothing to replace in. It is shown as it is where
// the script says noenhanced.
std::string quoted(const std::string& text);
// The same for the label of a tic, which gnuplot takes for a format of the tic's number.
std::string tic_label(std::string text);

}  // namespace edgedraft::netsim
