#include "netsim/report/html.h"

#include <cmath>
#include <cstdio>

namespace edgedraft::netsim {

std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string number(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  const int whole = size >= 1 ? static_cast<int>(std::floor(std::log10(size))) + 1 : 1;
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - whole), value);
  return text;
}

std::string count(double value) {
  return std::to_string(std::llround(value));
}

std::string HtmlTable::html() const {
  std::string html = "<div class=\"scroll\"><table><caption>" + caption_ + "</caption><thead><tr>";
  for (const std::string& cell : head_) html += "<th scope=\"col\">" + cell + "</th>";
  html += "</tr></thead><tbody>";
  for (const auto& cells : rows_) {
    html += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      html += i == 0 ? "<th scope=\"row\">" + cells[i] + "</th>" : "<td>" + cells[i] + "</td>";
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace edgedraft::netsim
