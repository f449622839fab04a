#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/program/program.h"
#include "shared/program/validators.h"
#include "tests/bench/bench_device.h"
#include "tests/bench/commands.h"
#include "tests/bench/device_operations.h"
#include "tests/bench/generated_model.h"
#include "tests/bench/known_shapes.h"

namespace edgedraft::bench {
namespace {

struct DeviceBenchOptions {
  std::string device = "vulkan";
  std::string features = "auto";
  std::string kv_type = "f32";
  std::string shape = "demo";
  std::string type = "q8_0";
  std::vector<std::uint32_t> widths = {1, 2, 4, 8, 16, 32, 64};
  std::uint32_t context = 256;
  std::uint32_t threads = 0;
  double seconds = 0.1;
  bool no_operations = false;
  bool no_cpu = false;
  bool json = false;
};

constexpr const char* kDeviceHelp =
    R"(Times the operations of a Mixture-of-Attentions drafter (one TLI layer, random weights) on a
Vulkan device, and a whole drafting step: one level of a tree with `width` rows, from tokens to
the best eight continuations of each.

`GB/s` counts the minimum of bytes read and written; `share` compares it with the rate of copying
256 MiB within the device's memory, measured in the same run. `device` is the time by the device's
clock, `wall` the time until the host has the result, `host` the time that the host adds to a
step, `processor` the CPU time of a step on the host. `cpu` is the time on the CPU backend. All
figures are the best of many repetitions.

Examples:
  edgedraft-bench device --shape demo
  edgedraft-bench device --shape llama3-8b --type q4_0 --widths 1,8 --device vulkan:1 --json)";

constexpr std::uint64_t kCopyBytes = std::uint64_t{256} << 20;
constexpr int kRepeatsMin = 3;

double best(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

// The best of `run`'s wall times within about `seconds_wanted` seconds, after a warm-up run.
template <class Run>
double time_wall(double seconds_wanted, const Run& run) {
  run();
  std::vector<double> times;
  double total = 0.0;
  while (total < seconds_wanted || times.size() < kRepeatsMin) {
    const Instant start = Clock::now();
    run();
    times.push_back(seconds(Clock::now() - start));
    total += times.back();
  }
  return best(times);
}

// Processor time of this process per run, over all threads: the CPU cost of drafting beside the
// device. With a software device it is the whole work, however busy the machine is.
template <class Run>
double time_processor(double seconds_wanted, const Run& run) {
  const Instant start = Clock::now();
  const std::clock_t before = std::clock();
  int runs = 0;
  while (seconds(Clock::now() - start) < seconds_wanted || runs < kRepeatsMin) {
    run();
    ++runs;
  }
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC / runs;
}

// A drafter after a conversation of `context` tokens, whose memory covers all but the last.
class Stepper {
 public:
  Stepper(Backend& backend, const GeneratedDrafter& drafter, std::uint32_t context)
      : network_(backend, drafter.config(), drafter.tensors(), context + kMaskRowsMax) {
    const std::vector<float> rows(std::size_t{context - 1} * network_.row_layout().cols(), 0.1f);
    network_.extend_memory(0, rows);
    std::vector<std::uint32_t> tokens(context);
    for (std::uint32_t i = 0; i < context; ++i) tokens[i] = token(i);
    network_.commit(tokens);
  }

  void step(std::uint32_t width) {
    network_.truncate(network_.committed_count());  // drops the previous step's rows
    nodes_.clear();
    for (std::uint32_t i = 0; i < width; ++i) {
      nodes_.push_back({.token = token(i), .depth = 1, .ancestors = {}});
    }
    network_.expand(nodes_);
    tokens_.resize(width * kChoices);
    log_probs_.resize(width * kChoices);
    network_.backend().top_k(
        {.logits = network_.logits(), .k = kChoices, .tokens = tokens_, .log_probs = log_probs_});
  }

 private:
  std::uint32_t token(std::uint32_t i) const { return i * 7919 % network_.vocabulary_count(); }

  MoaNetwork network_;
  std::vector<GrowthNode> nodes_;
  std::vector<std::uint32_t> tokens_;
  std::vector<float> log_probs_;
};

// The weights that a step reads.
double step_bytes(const MoaTensors& t) {
  double bytes = static_cast<double>(t.output.value_or(t.token_embd).bytes.size());
  std::vector<const LayerTensors*> layers = {&t.self_attention, &t.cross_attention};
  for (const LayerTensors& layer : t.tli) layers.push_back(&layer);
  for (const LayerTensors* layer : layers) {
    std::vector<const TensorView*> matrices = {&layer->attn_q, &layer->attn_output,
                                               &layer->ffn_gate, &layer->ffn_up, &layer->ffn_down};
    // Keys and values of cross-attention are computed when activations arrive.
    if (layer != &t.cross_attention) {
      matrices.push_back(&layer->attn_k);
      matrices.push_back(&layer->attn_v);
    }
    for (const TensorView* matrix : matrices) bytes += static_cast<double>(matrix->bytes.size());
  }
  return bytes;
}

class DeviceBench {
 public:
  DeviceBench(const DeviceBenchOptions& options, MeasuredBackend& device, DType type,
              GeneratedDrafter drafter)
      : o_(options),
        device_(device),
        type_(type),
        drafter_(std::move(drafter)),
        has_clock_(device.device().timestamps) {
    if (!o_.no_cpu) cpu_ = make_cpu_backend({.threads = o_.threads});
  }

  void run() {
    peak_ = device_.copy_bytes_per_second(kCopyBytes);
    const VulkanDevice& d = device_.device();
    report_ = {{"device", d.name},
               {"driver", d.driver},
               {"features", used()},
               {"shape", o_.shape},
               {"type", o_.type},
               {"context", o_.context},
               {"kv_type", o_.kv_type},
               {"copy_bytes_per_second", peak_},
               {"operations", nlohmann::json::array()},
               {"steps", nlohmann::json::array()}};
    if (!o_.json) {
      std::printf(
          "%s (%s; features in use: %s): copies within its memory at %.1f GB/s\n"
          "%s in %s, %u tokens of context in %s\n",
          d.name.c_str(), d.driver.c_str(), used().c_str(), peak_ * 1e-9, o_.shape.c_str(),
          o_.type.c_str(), o_.context, o_.kv_type.c_str());
    }
    if (!o_.no_operations) measure_operations();
    measure_steps();
    if (o_.json) std::puts(report_.dump(2).c_str());
  }

 private:
  std::string used() const {
    const VulkanFeatures& f = device_.features();
    std::string names;
    for (const auto& [is_used, name] :
         {std::pair(f.narrow_storage, "narrow_storage"), std::pair(f.float16, "float16"),
          std::pair(f.integer_dot, "integer_dot"), std::pair(f.subgroups, "subgroups")}) {
      if (is_used) names += (names.empty() ? "" : ",") + std::string(name);
    }
    return names.empty() ? "none" : names;
  }

  Operations::Sizes sizes(std::uint32_t width) const {
    return {.layer = drafter_.config().self_attention,
            .vocabulary = drafter_.config().vocabulary_count,
            .width = width,
            .context = o_.context,
            .type = type_};
  }

  // The operation's dispatches summed by the device's clock, or wall time without one.
  double device_seconds(Operations& operations, const Operation& operation) {
    if (!has_clock_) {
      return time_wall(o_.seconds, [&] {
        operation.run();
        operations.wait();
      });
    }
    device_.set_timing(MeasuredBackend::Timing::each);
    std::vector<double> times;
    const Instant start = Clock::now();
    while (seconds(Clock::now() - start) < o_.seconds || times.size() < kRepeatsMin) {
      operation.run();
      if (operation.shader != "top_k" && operation.shader != "argmax") operations.wait();
      double total = 0.0;
      for (const auto& time : device_.take_times()) total += time.seconds;
      times.push_back(total);
    }
    device_.set_timing(MeasuredBackend::Timing::none);
    return best(times);
  }

  void measure_operations() {
    if (!o_.json) {
      std::printf("\n%-16s %5s %10s %10s %8s %7s %10s\n", "operation", "width", "MB", "device us",
                  "GB/s", "share", "cpu us");
    }
    for (const std::uint32_t width : o_.widths) {
      Operations on_device(device_, sizes(width), drafter_.tensors());
      std::vector<Operation> all = on_device.all();
      std::optional<Operations> on_cpu;
      std::vector<Operation> cpu_all;
      if (cpu_) {
        on_cpu.emplace(*cpu_, sizes(width), drafter_.tensors());
        cpu_all = on_cpu->all();
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        on_device.wait();
        const double device = device_seconds(on_device, all[i]);
        const double cpu = cpu_ ? time_wall(o_.seconds, cpu_all[i].run) : 0.0;
        report_["operations"].push_back({{"name", all[i].name},
                                         {"width", width},
                                         {"bytes", all[i].bytes},
                                         {"device_seconds", device},
                                         {"share_of_copy", all[i].bytes / device / peak_},
                                         {"cpu_seconds", cpu}});
        if (o_.json) continue;
        std::printf("%-16s %5u %10.3f %10.1f %8.2f %5.0f %% %10.1f\n", all[i].name.c_str(), width,
                    all[i].bytes * 1e-6, device * 1e6, all[i].bytes / device * 1e-9,
                    100.0 * all[i].bytes / device / peak_, cpu * 1e6);
      }
    }
  }

  void measure_steps() {
    const double bytes = step_bytes(drafter_.tensors());
    Stepper on_device(device_, drafter_, o_.context);
    std::optional<Stepper> on_cpu;
    if (cpu_) on_cpu.emplace(*cpu_, drafter_, o_.context);
    if (!o_.json) {
      std::printf(
          "\n"
          "a drafting step reads %.1f MB of weights: at least %.3f ms at the copy rate\n",
          bytes * 1e-6, bytes / peak_ * 1e3);
      std::printf("%5s %10s %10s %9s %12s %8s %7s %10s\n", "width", "wall ms", "device ms",
                  "host us", "processor ms", "GB/s", "share", "cpu ms");
    }
    for (const std::uint32_t width : o_.widths) {
      const double wall = time_wall(o_.seconds, [&] { on_device.step(width); });
      const double processor = time_processor(o_.seconds, [&] { on_device.step(width); });
      double device = wall;
      double host = 0.0;
      if (has_clock_) {
        device_.set_timing(MeasuredBackend::Timing::whole);
        std::vector<double> devices;
        std::vector<double> hosts;
        on_device.step(width);
        const Instant first = Clock::now();
        while (seconds(Clock::now() - first) < o_.seconds || hosts.size() < kRepeatsMin) {
          const Instant start = Clock::now();
          on_device.step(width);
          const double both = seconds(Clock::now() - start);
          const auto times = device_.take_times();
          devices.push_back(times.empty() ? both : times.front().seconds);
          hosts.push_back(both - devices.back());
        }
        device_.set_timing(MeasuredBackend::Timing::none);
        device = best(devices);
        host = best(hosts);
      }
      const double cpu = on_cpu ? time_wall(o_.seconds, [&] { on_cpu->step(width); }) : 0.0;
      report_["steps"].push_back({{"width", width},
                                  {"weight_bytes", bytes},
                                  {"wall_seconds", wall},
                                  {"device_seconds", device},
                                  {"host_seconds", host},
                                  {"processor_seconds", processor},
                                  {"share_of_copy", bytes / wall / peak_},
                                  {"cpu_seconds", cpu}});
      if (o_.json) continue;
      std::printf("%5u %10.3f %10.3f %9.1f %12.3f %8.2f %5.0f %% %10.3f\n", width, wall * 1e3,
                  device * 1e3, host * 1e6, processor * 1e3, bytes / wall * 1e-9,
                  100.0 * bytes / wall / peak_, cpu * 1e3);
    }
  }

  const DeviceBenchOptions& o_;
  MeasuredBackend& device_;
  DType type_;
  GeneratedDrafter drafter_;
  bool has_clock_;
  std::unique_ptr<Backend> cpu_;
  double peak_ = 0.0;
  nlohmann::ordered_json report_;
};

void declare_device(CLI::App& app, DeviceBenchOptions& o) {
  app.footer(kDeviceHelp);
  app.add_option("--device", o.device,
                 "Device to measure: vulkan (the first usable one) or vulkan:N")
      ->capture_default_str();
  app.add_option("--features", o.features, kFeaturesHelp)->capture_default_str();
  app.add_option("--kv-type", o.kv_type, "The drafter's keys and values: f32 or f16")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  app.add_option("--shape", o.shape, "Sizes of the target: " + known_shape_names())
      ->capture_default_str();
  app.add_option("--type", o.type, "Type of the weights")->capture_default_str();
  app.add_option("--widths", o.widths, "Numbers of rows, such as 1,8,64")
      ->delimiter(',')
      ->check(CLI::Range(1u, kMaskRowsMax - 1));
  app.add_option("--context", o.context, "Context length before a step")
      ->check(CLI::Range(2u, 8192u - kMaskRowsMax))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "CPU threads; 0: one per fast core")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "Time spent on each figure")
      ->check(in_range(1e-6, 86'400.0))
      ->capture_default_str();
  app.add_flag("--no-operations", o.no_operations, "Measure only whole steps");
  app.add_flag("--no-cpu", o.no_cpu, "Skip the CPU backend");
  app.add_flag("--json", o.json, "One JSON object instead of a table");
}

// Times a drafter's operations and steps on a Vulkan device. Returns the exit status.
Result<int> run_device(const DeviceBenchOptions& o) {
  const auto type = dtype_from_name(o.type);
  if (!type) return Error{Errc::usage, "--type " + o.type + ": unknown type"};
  auto device = open_vulkan_device(o.device, o.features, dtype_from_name(o.kv_type).value());
  if (!device) return device.error();
  auto drafter = GeneratedDrafter::make(o.shape, *type);
  if (!drafter) return drafter.error();
  DeviceBench(o, **device, *type, *std::move(drafter)).run();
  return 0;
}

}  // namespace

void add_device(Program& program) {
  static DeviceBenchOptions options;
  program.command("device", "Operations and steps of a drafter on a Vulkan device", options,
                  declare_device, run_device);
}

}  // namespace edgedraft::bench
