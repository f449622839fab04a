#pragma once

#include <string>
#include <utility>
#include <vector>

namespace edgedraft::netsim {

std::string escape(const std::string& text);

// "12.3": that many significant digits, without an exponent. "–" for NaN and infinities.
std::string number(double value, int digits = 3);

// A whole number.
std::string count(double value);

// A table that scrolls sideways on narrow screens. Cells are HTML.
class HtmlTable {
 public:
  HtmlTable(std::string caption, std::vector<std::string> head)
      : caption_(std::move(caption)), head_(std::move(head)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string html() const;

 private:
  std::string caption_;
  std::vector<std::string> head_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace edgedraft::netsim
