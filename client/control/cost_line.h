#pragma once

namespace edgedraft {

// What something costs by its rows: a straight line through what was measured, of which the latest
// counts most. While all of it was of the same width a row more costs 2 % of that.
class CostLine {
 public:
  void add(double rows, double seconds);
  bool known() const { return weight_ > 0.0; }
  // Requires  known()
  double at(double rows) const;

  // What it was made of, to be kept: weight, and sums of rows, seconds, rows^2, rows x seconds.
  struct Sums {
    double weight = 0.0;
    double rows = 0.0;
    double seconds = 0.0;
    double rows_squared = 0.0;
    double product = 0.0;
  };
  Sums sums() const { return {weight_, rows_, seconds_, rows_squared_, product_}; }
  // Sums that no measurement can have made count as nothing.
  explicit CostLine(const Sums& sums);
  CostLine() = default;

 private:
  double weight_ = 0.0;
  double rows_ = 0.0;
  double seconds_ = 0.0;
  double rows_squared_ = 0.0;
  double product_ = 0.0;
};

}  // namespace edgedraft
