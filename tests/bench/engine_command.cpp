#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/ops.h"
#include "server/program/device.h"
#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/percentile.h"
#include "shared/base/random.h"
#include "shared/model/gguf.h"
#include "shared/program/program.h"
#include "shared/program/validators.h"
#include "shared/runtime/cpu_backend.h"
#include "shared/runtime/decoder.h"
#include "tests/bench/commands.h"
#include "tests/bench/engine_baseline.h"
#include "tests/bench/engine_passes.h"
#include "tests/bench/generated_model.h"
#include "tests/bench/known_shapes.h"
#include "tests/bench/machine_limits.h"
#include "tests/bench/peer.h"
#include "tests/bench/roofline.h"

namespace edgedraft::bench {
using namespace server;
namespace {

struct EngineOptions {
  std::string model;
  std::string shape = "tinyllama";
  std::string type = "q8_0";
  std::vector<std::uint32_t> widths = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14,
                                       16, 20, 24, 32, 40, 48, 62, 64, 96, 128};
  std::uint32_t context = 64;
  std::uint32_t prompt = 512;
  std::uint32_t threads = 0;
  std::string device = "cpu";
  std::string instruction_set;
  std::string peer;
  bool deterministic = false;
  bool no_cuda_graphs = false;
  std::uint32_t mismatch = 0;
  std::uint32_t sessions = 1;
  std::uint32_t page = 0;
  std::string kv_type = "f32";
  double seconds = 0.5;
  std::filesystem::path baseline;
  bool json = false;
};

constexpr const char* kEngineHelp =
    R"(Times passes of a whole decoder for different numbers of rows (widths). Width 1 is plain
decoding, width N the verification of a draft tree of N nodes. A prompt follows.

A pass can be no faster than reading the weights once (memory bandwidth) or than its matrices'
multiplications and additions (arithmetic peak: int8 for quantised weights, float32 for the
others), whichever takes longer. Both limits are measured in the same run. `share` is the
shortest limit divided by the best time. Limits are measured over moments, so a pass rarely
reaches them on a shared machine. `in turns` compares passes with mean limits that are measured
for the same time, before and after every 30 ms of passes, and is the median of such turns.

AVX2 alone has a higher peak for weights of six bits or fewer than for eight: `share` refers to
that peak, `of int8` to the eight-bit peak, which such weights may exceed. A CPU with tile
registers (AMX) has two peaks for quantised and for bf16 weights: `share` refers to vector
instructions, `of tiles` to tiles, which are the machine's limit (a third of the bf16 peak,
since activations have three times its digits). With a long --context the keys and values that
attention reads (--kv-type) count as well: as bytes once per pass, as operations once per row.
A pass of a mixture reads the experts that its rows choose, estimated as random choices.

Widths alternate, so a disturbance affects all of them. Every width's result is compared with
that of width 1, bit for bit, if the device guarantees it (the CPU; a GPU with --deterministic).

--peer llama-bench runs that program of llama.cpp on the same file, alternating with the passes,
and prints the speedup over it, by best times and by medians. It times prompts without a
context, with the logits of the last row; passes here have --context tokens before them and
logits of all rows. With --device cuda it runs all layers on the GPU with fused attention
(-ngl 99 -fa 1).

--baseline FILE compares the shares in turns with those recorded in FILE for the same setting.
Each row adds the recorded share and the ratio of the measured one to it. The exit status is 1
if a ratio is below 0.80: on a loaded machine, the lowest of 156 ratios to the median of repeats
was 0.85. Unlike times, shares carry over between machines with the same instructions.
tests/bench/baseline.json records widths 1, 8 and 62 of one thread for AVX-512 (avx512vnni) and
AVX2 (avx2).

With --sessions N a pass has N sequences of each width, as a server's pass has sessions;
limits, tokens and bytes count all of them.

On a GPU there are no limits to compare with: scripts/gpu-check.sh measures its kernels.
--mismatch N counts how many of N greedy tokens differ between passes of 64 rows and of one row.
--no-cuda-graphs shows the cost of launching every kernel separately.

Examples:
  edgedraft-bench engine --shape tinyllama --type q4_0
  edgedraft-bench engine --model models/demo/target.gguf --widths 1,16,62 --json
  edgedraft-bench engine --shape tinyllama --context 7936 --widths 1,8,62 --kv-type f16
  edgedraft-bench engine --model target-f16.gguf --widths 1,8,62 --peer ./llama-bench
  edgedraft-bench engine --device cuda --shape llama3-8b --type bf16 --mismatch 1000
  edgedraft-bench engine --threads 1 --widths 1,8,62 --prompt 0 --seconds 1 \
    --instruction-set avx2 --baseline tests/bench/baseline.json)";

// The source of the weights.
struct Source {
  std::optional<GgufFile> file;
  std::optional<GeneratedModel> generated;
  DecoderConfig config;
  DecoderTensors tensors;
};

Result<Source> open_source(const EngineOptions& o) {
  Source source;
  if (!o.model.empty()) {
    auto file = GgufFile::open(o.model);
    if (!file) return file.error();
    source.file = *std::move(file);
    auto config = read_decoder_config(*source.file);
    if (!config) return config.error();
    source.config = *std::move(config);
    auto tensors = read_decoder_tensors(*source.file, source.config);
    if (!tensors) return tensors.error();
    source.tensors = *std::move(tensors);
    return source;
  }
  const auto type = dtype_from_name(o.type);
  if (!type) {
    std::string names;
    for (const DType t : kDTypes)
      names += (names.empty() ? "" : ", ") + std::string(traits(t).name);
    return Error{Errc::usage, "--type " + o.type + ": unknown type; give one of " + names};
  }
  auto generated = GeneratedModel::make(o.shape, *type);
  if (!generated) return generated.error();
  source.generated = *std::move(generated);
  source.config = source.generated->config();
  source.tensors = source.generated->tensors();
  return source;
}

// Empty: the best that this machine supports.
Result<const cpu::Kernels*> find_kernels(const std::string& instruction_set) {
  if (instruction_set.empty()) return &cpu::best_kernels();
  std::string names;
  for (const auto* kernels = cpu::available_kernels(); *kernels != nullptr; ++kernels) {
    if (instruction_set == (*kernels)->name) return *kernels;
    names += (names.empty() ? "" : ", ") + std::string((*kernels)->name);
  }
  return Error{Errc::usage,
               "--instruction-set " + instruction_set + ": not available; give one of " + names};
}

// Passes alternate with measurements of the machine's limits. A shared machine's capacity varies
// over time, so passes are compared with the limits around them.
struct Turn {
  double pass_seconds;
  MachineLimits before;
  MachineLimits after;
};

struct Times {
  std::vector<double> seconds;
  std::vector<double> peer_seconds;  // times of another engine, if any
  std::vector<Turn> turns;

  double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double median() const { return edgedraft::median(seconds); }
  // The median over turns of a turn's limit divided by its passes' mean. limit(MachineLimits):
  // seconds.
  template <class Limit>
  double share_in_turns(const Limit& limit) const {
    std::vector<double> shares;
    for (const Turn& turn : turns) {
      shares.push_back((limit(turn.before) + limit(turn.after)) / 2 / turn.pass_seconds);
    }
    return edgedraft::median(std::move(shares));
  }
};

constexpr int kRounds = 3;

// The peer's turn in a round: at least as many passes as ours.
Result<void> time_peer(const EngineOptions& o, std::size_t threads, std::vector<Times>& times) {
  constexpr std::uint32_t kRepetitions = 5;
  const auto passes = run_peer({.program = o.peer,
                                .model = o.model,
                                .widths = o.widths,
                                .threads = threads,
                                .repetitions = kRepetitions,
                                .on_gpu = o.device != "cpu"});
  if (!passes) return passes.error();
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::vector<double>& more = (*passes)[i].seconds;
    times[i].peer_seconds.insert(times[i].peer_seconds.end(), more.begin(), more.end());
  }
  return boost::system::in_place_value;
}

// Times passes alone if `meter` is null.
Result<std::vector<Times>> time_widths(Passes& passes, const EngineOptions& o, LimitMeter* meter,
                                       std::size_t threads) {
  constexpr double kTurnSeconds = 0.03;
  std::vector<Times> times(o.widths.size());
  for (const std::uint32_t width : o.widths) {
    if (o.device == "cpu" || o.deterministic) passes.check(width);
    passes.run_and_wait(width);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < o.widths.size(); ++i) {
      MachineLimits before = meter ? meter->sample(kTurnSeconds) : MachineLimits{};
      for (double total = 0.0; total < o.seconds / kRounds;) {
        double turn = 0.0;
        int count = 0;
        for (; turn < kTurnSeconds; ++count) {
          const Instant start = Clock::now();
          passes.run_and_wait(o.widths[i]);
          times[i].seconds.push_back(seconds(Clock::now() - start));
          turn += times[i].seconds.back();
        }
        total += turn;
        if (!meter) continue;
        MachineLimits after = meter->sample(turn);
        times[i].turns.push_back({turn / count, before, after});
        before = std::move(after);
      }
    }
    if (meter) meter->measure();
    if (o.peer.empty()) continue;
    if (const auto timed = time_peer(o, threads, times); !timed) return timed.error();
  }
  return times;
}

// A share of the roofline to print.
struct ShareKind {
  const char* name;
  const char* heading;
  double (*seconds)(const PassLimits& limits);
};
std::vector<ShareKind> share_kinds(const PassLimits& limits) {
  std::vector<ShareKind> kinds = {
      {"vector", "share", [](const PassLimits& l) { return l.seconds; }}};
  if (limits.int8_seconds) {
    kinds.push_back({"int8", "of int8", [](const PassLimits& l) { return *l.int8_seconds; }});
  }
  if (limits.tile_seconds) {
    kinds.push_back({"tiles", "of tiles", [](const PassLimits& l) { return *l.tile_seconds; }});
  }
  return kinds;
}

void declare_engine(CLI::App& app, EngineOptions& options) {
  app.footer(kEngineHelp);
  app.add_option("--model", options.model, "Target, or independent drafter")
      ->type_name("FILE.gguf");
  app.add_option("--shape", options.shape,
                 "Sizes of random weights, without --model: " + known_shape_names())
      ->capture_default_str();
  app.add_option("--type", options.type, "Type of the random weights")->capture_default_str();
  app.add_option("--widths", options.widths, "Numbers of rows, such as 1,2,62")
      ->delimiter(',')
      ->check(CLI::Range(1u, kMaskRowsMax));
  app.add_option("--context", options.context, "Context length before a pass")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--prompt", options.prompt, "Prompt length; 0: none")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  app.add_option("--sessions", options.sessions,
                 "Sequences per pass, each with --widths rows and its own --context; more than one "
                 "use pages, of 32 positions unless --page is given")
      ->check(CLI::Range(1u, kMaskRowsMax))
      ->capture_default_str();
  app.add_option("--page", options.page,
                 "Positions per page of keys and values (a server has 32); 0: no pages")
      ->check([](const std::string& text) {
        const bool power =
            text == "0" || std::has_single_bit(std::strtoul(text.c_str(), nullptr, 10));
        return power ? std::string() : std::string("give 0 or a power of two");
      })
      ->capture_default_str();
  app.add_option("--kv-type", options.kv_type, "Keys and values: f32, f16, bf16 or int8")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads; 0: one per fast core")
      ->capture_default_str();
  app.add_option("--device", options.device, "Device: cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--instruction-set", options.instruction_set,
                 "CPU instruction set, such as avx2 [the best available]");
  app.add_option("--peer", options.peer, "llama.cpp's llama-bench, to compare with; needs --model")
      ->type_name("PROGRAM");
  app.add_flag("--deterministic", options.deterministic,
               "On a GPU: the same order of summation for all widths");
  app.add_flag("--no-cuda-graphs", options.no_cuda_graphs,
               "On a GPU: launch every kernel separately");
  app.add_option("--mismatch", options.mismatch,
                 "Greedy tokens to compare between passes of 1 and 64 rows; 0: none")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds,
                 "Time per width for passes; on the CPU the limits take the same again")
      ->check(in_range(1e-6, 86'400.0))
      ->capture_default_str();
  app.add_option("--baseline", options.baseline,
                 "Recorded shares to compare with; exit status 1 if one is missed, see below")
      ->type_name("FILE.json");
  app.add_flag("--json", options.json, "One JSON object instead of a table");
}

// Times a decoder's passes for different numbers of rows. Returns the exit status: 1 if a share is
// below its baseline.
Result<int> run_engine(const EngineOptions& o) {
  const auto source = open_source(o);
  if (!source) return source.error();
  const std::uint32_t positions = std::max({o.context + kMaskRowsMax, o.prompt, o.mismatch + 1});
  if (positions > source->config.context_length) {
    return Error{Errc::usage, "--context, --prompt or --mismatch exceed the model's context of " +
                                  std::to_string(source->config.context_length)};
  }
  for (const std::uint32_t width : o.widths) {
    if (o.sessions * width > kMaskRowsMax) {
      return Error{Errc::usage, std::to_string(o.sessions) + " --sessions of width " +
                                    std::to_string(width) + " exceed the " +
                                    std::to_string(kMaskRowsMax) + " rows of a pass"};
    }
  }
  const auto kernels = find_kernels(o.instruction_set);
  if (!kernels) return kernels.error();
  if (!o.peer.empty() && o.model.empty()) {
    return Error{Errc::usage, "--peer needs --model FILE.gguf, which both programs read"};
  }
  LimitMeter meter(**kernels, o.threads);
  meter.measure();
  auto device = open_device(
      {.device = o.device,
       .threads = o.threads,
       .deterministic = o.deterministic,
       .cuda_graphs = !o.no_cuda_graphs,
       .on_notice = [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); }});
  if (!device) return device.error();
  const bool on_cpu = device->backend->name() == "cpu";
  if (on_cpu) device->backend = make_cpu_backend_with(**kernels, {.threads = o.threads});
  if (!o.baseline.empty() && !on_cpu) {
    return Error{Errc::usage, "--baseline: only the CPU has limits to compare with"};
  }
  Backend* const backend = device->backend.get();
  const Instant start = Clock::now();
  Decoder decoder(*backend, source->config, source->tensors, positions);
  const double load_seconds = seconds(Clock::now() - start);
  const DType kv_type = cache_type_from_name(o.kv_type).value();
  const std::uint32_t page =
      o.page == 0 && o.sessions > 1 ? std::uint32_t{KvPool::kPageSlots} : o.page;
  Passes passes(
      decoder,
      {.context = o.context, .sessions = o.sessions, .page_slots = page, .kv_type = kv_type});
  PassCost cost = cost_of(source->config, source->tensors, o.context, kv_type);
  cost.cache_bytes *= o.sessions;

  if (!o.json && !on_cpu) std::printf("%s\n", device->reason.c_str());
  if (!o.json) {
    std::printf("%s: %.1f MB per pass of one row, %.2f GOP per row; ready after %.0f ms\n",
                o.model.empty() ? (o.shape + " in " + o.type).c_str() : o.model.c_str(),
                cost.weight_bytes(1) * 1e-6, cost.operations_a_row * 1e-9, load_seconds * 1e3);
    std::printf(
        "%u tokens of context%s: %.1f MB of keys and values in %s\n\n", o.context,
        o.sessions > 1 ? (" in each of " + std::to_string(o.sessions) + " sessions").c_str() : "",
        cost.cache_bytes * 1e-6, o.kv_type.c_str());
    std::fflush(stdout);
  }
  const MachineLimits& limits = meter.best();
  nlohmann::json report{{"model", o.model.empty() ? o.shape : o.model},
                        {"device", device->reason},
                        {"instruction_set", limits.instruction_set},
                        {"threads", limits.threads},
                        {"context", o.context},
                        {"sessions", o.sessions},
                        {"page", page},
                        {"kv_type", o.kv_type}};
  if (o.model.empty()) report["type"] = o.type;
  std::vector<double> recorded;
  if (!o.baseline.empty()) {
    auto read = read_baseline(o.baseline, report, o.widths);
    if (!read) return read.error();
    recorded = *std::move(read);
  }
  const auto timed = time_widths(passes, o, on_cpu ? &meter : nullptr, limits.threads);
  if (!timed) return timed.error();
  const std::vector<Times>& times = *timed;
  report.update({{"limit_read_bytes_per_second", limits.read_bytes_per_second},
                 {"limit_int8_operations_per_second", limits.int8_operations_per_second},
                 {"limit_short_operations_per_second", limits.short_operations_per_second},
                 {"limit_tile_operations_per_second", limits.tile_operations_per_second},
                 {"limit_bf16_tile_operations_per_second", limits.bf16_tile_operations_per_second},
                 {"limit_float_operations_per_second", limits.float_operations_per_second},
                 {"weight_bytes", cost.weight_bytes(1)},
                 {"operations_a_row", cost.operations_a_row},
                 {"load_seconds", load_seconds},
                 {"cache_bytes", cost.cache_bytes},
                 {"passes", nlohmann::json::array()}});
  if (!o.json && on_cpu) {
    std::printf("%s, %zu threads: memory %.1f GB/s, int8 %.0f GOP/s, float32 %.0f GFLOP/s\n",
                limits.instruction_set.c_str(), limits.threads, limits.read_bytes_per_second * 1e-9,
                limits.int8_operations_per_second * 1e-9,
                limits.float_operations_per_second * 1e-9);
    if (limits.short_operations_per_second > 0.0) {
      std::printf("(int8 with weights of six bits or fewer: %.0f GOP/s)\n",
                  limits.short_operations_per_second * 1e-9);
    }
    if (limits.tile_operations_per_second > 0.0) {
      std::printf("(with vector instructions; with tiles int8 %.0f GOP/s, bf16 %.0f GFLOP/s)\n",
                  limits.tile_operations_per_second * 1e-9,
                  limits.bf16_tile_operations_per_second * 1e-9);
    }
  }
  const std::vector<ShareKind> kinds =
      on_cpu ? share_kinds(limits_of(cost, 1, limits)) : std::vector<ShareKind>();
  if (!o.json) {
    std::printf("width    best ms  median ms   tokens/s      GB/s     GOP/s");
    for (const ShareKind& kind : kinds) std::printf(" %9s  in turns", kind.heading);
    if (!recorded.empty()) std::printf("  baseline  ratio");
    if (!o.peer.empty()) std::printf("   peer ms     median        speedup  by medians");
    std::puts("");
  }
  bool is_slower = false;
  for (std::size_t i = 0; i < o.widths.size(); ++i) {
    const std::uint32_t width = o.widths[i];
    const std::uint32_t rows = o.sessions * width;
    const double best = times[i].best();
    const double median = times[i].median();
    nlohmann::json pass{{"width", width}, {"seconds_best", best}, {"seconds_median", median}};
    if (!o.json) {
      std::printf("%5u %10.3f %10.3f %10.1f %9.1f %9.1f", width, best * 1e3, median * 1e3,
                  rows / median, (cost.weight_bytes(rows) + cost.cache_bytes) / best * 1e-9,
                  cost.operations_a_row * rows / best * 1e-9);
    }
    for (const ShareKind& kind : kinds) {
      const auto limit = [&](const MachineLimits& machine) {
        return kind.seconds(limits_of(cost, rows, machine));
      };
      const double share = limit(limits) / best;
      const double in_turns = times[i].share_in_turns(limit);
      pass["shares"][kind.name] = {
          {"limit_seconds", limit(limits)}, {"best", share}, {"in_turns", in_turns}};
      if (!o.json) std::printf(" %7.0f %% %7.0f %%", 100.0 * share, 100.0 * in_turns);
    }
    if (!recorded.empty()) {
      const double ratio = pass["shares"]["vector"]["in_turns"].get<double>() / recorded[i];
      is_slower |= ratio < kBaselineFloor;
      pass["baseline"] = {{"in_turns", recorded[i]}, {"ratio", ratio}};
      if (!o.json) std::printf(" %7.0f %% %6.2f", 100.0 * recorded[i], ratio);
    }
    if (!o.peer.empty()) {
      const double peer_best = *std::ranges::min_element(times[i].peer_seconds);
      const double peer_median = edgedraft::median(times[i].peer_seconds);
      pass["peer"] = {{"seconds_best", peer_best},
                      {"seconds_median", peer_median},
                      {"times_as_fast_best", peer_best / best},
                      {"times_as_fast_median", peer_median / median}};
      if (!o.json) {
        std::printf(" %9.3f %10.3f %14.2f %11.2f", peer_best * 1e3, peer_median * 1e3,
                    peer_best / best, peer_median / median);
      }
    }
    if (!o.json) std::puts("");
    report["passes"].push_back(std::move(pass));
  }
  if (o.prompt > 0) {
    const double prompt_seconds =
        std::min(passes.prompt_seconds(o.prompt), passes.prompt_seconds(o.prompt));
    report["prompt"] = {{"tokens", o.prompt}, {"seconds", prompt_seconds}};
    if (!o.json) {
      std::printf("\nprompt of %u tokens: %.0f ms, %.0f tokens/s\n", o.prompt, prompt_seconds * 1e3,
                  o.prompt / prompt_seconds);
    }
  }
  if (o.mismatch > 0) {
    const std::uint32_t different = passes.mismatches(o.mismatch);
    report["mismatch"] = {{"tokens", o.mismatch}, {"different", different}};
    if (!o.json) {
      std::printf("\n%u of %u greedy tokens differ between passes of 1 and of 64 rows\n", different,
                  o.mismatch);
    }
  }
  if (o.json) std::puts(report.dump(2).c_str());
  if (is_slower) {
    std::fprintf(stderr, "%s: a ratio is below %.2f\n", o.baseline.c_str(), kBaselineFloor);
  }
  return is_slower ? 1 : 0;
}

}  // namespace

void add_engine(Program& program) {
  static EngineOptions options;
  program.command("engine", "Times of a decoder's passes by number of rows", options,
                  declare_engine, run_engine);
}

}  // namespace edgedraft::bench
