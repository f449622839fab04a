#include "tests/bench/engine_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/random.h"
#include "shared/runtime/scratch.h"
#include "tests/bench/layer_weights.h"
#include "tests/bench/machine_limits.h"

namespace edgedraft::bench {
namespace {

constexpr const char* kHelp =
    R"(Times the matrix products of one decoder layer for different numbers of rows (widths):
width 1 is plain decoding, width N the verification of a draft tree of N nodes.

A pass can be no faster than reading the weights once (memory bandwidth) or than its
multiplications and additions (arithmetic peak), whichever takes longer. Both limits are
measured first, in the same run; `share` is the limit divided by the time taken. Every
width's answer is checked before it is timed.

Examples:
  edgedraft-bench engine --shape llama-1.1b --type q8_0
  edgedraft-bench engine --shape 4096x4096 --type f16 --widths 1,62 --threads 1 --json)";

struct EngineOptions {
  std::string shape = "llama-1.1b";
  std::string type = "q8_0";
  std::vector<std::uint32_t> widths = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32, 48, 62, 64};
  std::uint32_t threads = 0;
  std::uint32_t working_set_mib = 256;
  double seconds = 0.5;
  bool json = false;
};

struct Pass {
  std::uint32_t width;
  double seconds_best;
  double seconds_median;
};

// The activations of a pass: one input and one output matrix a weight.
class Activations {
 public:
  Activations(Backend& backend, const std::vector<WeightShape>& shapes, std::uint32_t rows_max)
      : backend_(backend) {
    Random random(2);
    for (const WeightShape& shape : shapes) {
      inputs_.emplace_back(backend, rows_max, shape.inputs);
      outputs_.emplace_back(backend, rows_max, shape.outputs);
      std::vector<float> numbers(std::size_t{rows_max} * shape.inputs);
      for (float& x : numbers) x = static_cast<float>(2.0 * random.uniform() - 1.0);
      backend.write(inputs_.back().all(), numbers);
    }
  }

  void pass(const std::vector<Weight>& weights, std::uint32_t width) {
    for (std::size_t w = 0; w < weights.size(); ++w) {
      backend_.matmul({.x = inputs_[w].rows(width),
                       .weight = weights[w],
                       .bias = {},
                       .y = outputs_[w].rows(width)});
    }
  }

  // Compares some outputs of a pass with sums in float64. Throws a Failure where one is off.
  void check(const LayerWeights& weights, std::uint32_t width) {
    for (std::size_t w = 0; w < inputs_.size(); ++w) {
      const Matrix y_matrix = outputs_[w].rows(width);
      const Matrix x_matrix = inputs_[w].rows(width);
      std::vector<float> x(std::size_t{width} * x_matrix.cols);
      std::vector<float> y(std::size_t{width} * y_matrix.cols);
      backend_.read(x_matrix, x);
      backend_.read(y_matrix, y);
      for (std::uint32_t sample = 0; sample < 16; ++sample) {
        const auto output =
            static_cast<std::uint32_t>(std::uint64_t{sample} * (y_matrix.cols - 1) / 15);
        const std::uint32_t row = sample % width;
        const std::vector<float> weight = weights.decoded_row(w, output);
        double exact = 0.0;
        double magnitude = 0.0;
        for (std::size_t i = 0; i < weight.size(); ++i) {
          const double product = double{x[row * weight.size() + i]} * double{weight[i]};
          exact += product;
          magnitude += std::fabs(product);
        }
        const double error =
            std::fabs(double{y[std::size_t{row} * y_matrix.cols + output]} - exact);
        if (!(error <= 1e-6 * magnitude)) {
          throw Failure({Errc::unsupported, "wrong answer at width " + std::to_string(width)});
        }
      }
    }
  }

 private:
  Backend& backend_;
  std::vector<OwnedMatrix> inputs_;
  std::vector<OwnedMatrix> outputs_;
};

Pass time_pass(Activations& activations, const LayerWeights& weights, std::uint32_t width,
               double seconds_min) {
  activations.pass(weights.copy(0), width);
  activations.check(weights, width);
  std::vector<double> times;
  double total = 0.0;
  for (std::size_t i = 0; total < seconds_min || times.size() < 3; ++i) {
    const Instant start = Clock::now();
    activations.pass(weights.copy(i % weights.copy_count()), width);
    times.push_back(seconds(Clock::now() - start));
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  return {.width = width, .seconds_best = times.front(), .seconds_median = times[times.size() / 2]};
}

// What a pass moves and computes, and the time that takes at best.
struct Bound {
  double bytes;
  double operations;
  double seconds;
};

Bound bound_of(const LayerWeights& weights, std::uint32_t width, const MachineLimits& limits) {
  const auto bytes = static_cast<double>(weights.bytes_a_copy());
  const double operations = 2.0 * static_cast<double>(weights.products_a_row()) * width;
  return {.bytes = bytes,
          .operations = operations,
          .seconds = std::max(bytes / limits.read_bytes_per_second,
                              operations / limits.operations_per_second)};
}

nlohmann::json to_json(const Pass& pass, const Bound& bound) {
  return {{"width", pass.width},
          {"seconds_best", pass.seconds_best},
          {"seconds_median", pass.seconds_median},
          {"weight_bytes_per_second", bound.bytes / pass.seconds_best},
          {"operations_per_second", bound.operations / pass.seconds_best},
          {"limit_seconds", bound.seconds},
          {"share_of_limit", bound.seconds / pass.seconds_best}};
}

void print_row(const Pass& pass, const Bound& bound) {
  std::printf("%5u %10.3f %10.3f %9.1f %9.1f %7.0f %%\n", pass.width, pass.seconds_best * 1e3,
              pass.seconds_median * 1e3, bound.bytes / pass.seconds_best * 1e-9,
              bound.operations / pass.seconds_best * 1e-9,
              100.0 * bound.seconds / pass.seconds_best);
  std::fflush(stdout);
}

void run_engine(const EngineOptions& options) {
  const auto shapes = parse_shape(options.shape).value();
  const auto type = dtype_from_name(options.type);
  if (!type)
    throw Failure({Errc::usage, "--type " + options.type + " is none of f32, f16, bf16, q8_0"});
  for (const WeightShape& shape : shapes) {
    if (!row_bytes(*type, shape.inputs)) {
      throw Failure({Errc::usage, "a row of " + std::to_string(shape.inputs) +
                                      " elements is no whole number of " + options.type +
                                      " blocks"});
    }
  }

  const MachineLimits limits = measure_limits(options.threads);
  const auto backend = make_cpu_backend({.threads = options.threads});
  const LayerWeights weights(*backend, shapes, *type,
                             std::uint64_t{options.working_set_mib} * 1024 * 1024);
  Activations activations(*backend, shapes,
                          *std::max_element(options.widths.begin(), options.widths.end()));

  nlohmann::json report{{"shape", options.shape},
                        {"type", options.type},
                        {"instruction_set", limits.instruction_set},
                        {"threads", limits.threads},
                        {"limit_read_bytes_per_second", limits.read_bytes_per_second},
                        {"limit_operations_per_second", limits.operations_per_second},
                        {"weight_bytes", weights.bytes_a_copy()},
                        {"passes", nlohmann::json::array()}};
  if (!options.json) {
    std::printf("%s, %zu threads: memory %.1f GB/s, float32 %.1f GFLOP/s\n",
                limits.instruction_set.c_str(), limits.threads, limits.read_bytes_per_second * 1e-9,
                limits.operations_per_second * 1e-9);
    std::printf("%s in %s: %.1f MB a pass\n\n", options.shape.c_str(), options.type.c_str(),
                static_cast<double>(weights.bytes_a_copy()) * 1e-6);
    std::printf("width    best ms  median ms      GB/s   GFLOP/s   share\n");
  }
  for (const std::uint32_t width : options.widths) {
    const Pass pass = time_pass(activations, weights, width, options.seconds);
    const Bound bound = bound_of(weights, width, limits);
    report["passes"].push_back(to_json(pass, bound));
    if (!options.json) print_row(pass, bound);
  }
  if (options.json) std::puts(report.dump(2).c_str());
}

}  // namespace

void add_engine_command(CLI::App& program) {
  const auto options = std::make_shared<EngineOptions>();
  CLI::App* command = program.add_subcommand("engine", "matrix products by number of rows");
  command->footer(kHelp);
  command->add_option("--shape", options->shape, "llama-1.1b, llama3-8b or OUTPUTSxINPUTS")
      ->capture_default_str();
  command->add_option("--type", options->type, "f32, f16, bf16 or q8_0")->capture_default_str();
  command->add_option("--widths", options->widths, "numbers of rows, such as 1,2,62")
      ->delimiter(',')
      ->check(CLI::Range(1u, 1024u));
  command->add_option("--threads", options->threads, "0: one a core")->capture_default_str();
  command
      ->add_option("--working-set", options->working_set_mib,
                   "MiB of copies of the weights that passes take in turn; 0: one copy, which may "
                   "stay in the cache")
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "time spent on each width")
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object instead of a table");
  command->callback([options] { run_engine(*options); });
}

}  // namespace edgedraft::bench
