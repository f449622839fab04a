#pragma once

namespace edgedraft::client {

// Cost as a straight line over row count, fitted with more weight on recent measurements. While all
// measurements have the same row count, each further row is assumed to add 2 % of their cost.
class CostLine {
 public:
  void add(double rows, double seconds);
  bool known() const { return weight_ > 0.0; }
  // Requires  known()
  double at(double rows) const;

  // The fit's state, for saving: weight, and sums of rows, seconds, rows^2, rows x seconds.
  struct Sums {
    double weight = 0.0;
    double rows = 0.0;
    double seconds = 0.0;
    double rows_squared = 0.0;
    double product = 0.0;
  };
  Sums sums() const { return {weight_, rows_, seconds_, rows_squared_, product_}; }
  // Ignores sums that no measurement could have produced.
  explicit CostLine(const Sums& sums);
  CostLine() = default;

 private:
  double weight_ = 0.0;
  double rows_ = 0.0;
  double seconds_ = 0.0;
  double rows_squared_ = 0.0;
  double product_ = 0.0;
};

}  // namespace edgedraft::client
