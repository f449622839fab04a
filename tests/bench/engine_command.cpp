#include "tests/bench/engine_command.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/device.h"
#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/base/random.h"
#include "shared/model/gguf.h"
#include "shared/runtime/decoder.h"
#include "tests/bench/generated_model.h"
#include "tests/bench/machine_limits.h"

namespace edgedraft::bench {
namespace {

constexpr const char* kHelp =
    R"(Times passes of a whole decoder for different numbers of rows (widths): width 1 is plain
decoding, width N the verification of a draft tree of N nodes. Then a prompt.

A pass can be no faster than reading the weights once (memory bandwidth) or than the
multiplications and additions of its matrices (arithmetic peak: of int8 for quantised
weights, of float32 for the others), whichever takes longer. Both limits are measured
in the same run, before, between and after the passes; `share` is the best limit divided by
the best time. AVX2 alone has a
higher peak for weights of six bits or fewer than for those of eight. A processor with
tile registers (AMX) has two peaks for quantised and for bf16 weights: `share` is of the
limit by vector instructions, `of tiles` of the limit by tiles, which is the machine's (a
third of the peak of bf16, since activations have three times its digits). Behind a long
--context the keys and values that attention reads (--kv-type) count as well: once a pass
as bytes, once a row as operations. Widths take turns,
so that a disturbance hits all of them. Every width's answer is compared with that of
width 1, bit for bit, where the device promises that (the CPU; a GPU with --deterministic).

On a GPU there are no limits to compare with: its kernels have a bench of their own
(scripts/gpu-check.sh). --mismatch N counts instead how many of N greedy tokens a pass of
64 rows chooses differently from passes of one row. --no-cuda-graphs shows what it takes to
start every kernel by itself.

Examples:
  edgedraft-bench engine --shape tinyllama --type q4_0
  edgedraft-bench engine --model models/demo/target.gguf --widths 1,16,62 --json
  edgedraft-bench engine --shape tinyllama --context 7936 --widths 1,8,62 --kv-type f16
  edgedraft-bench engine --device cuda --shape llama3-8b --type bf16 --mismatch 1000)";

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
  bool deterministic = false;
  bool no_cuda_graphs = false;
  std::uint32_t mismatch = 0;
  std::uint32_t page = 0;
  std::string kv_type = "f32";
  double seconds = 0.5;
  bool json = false;
};

// Where the weights come from.
struct Source {
  std::optional<GgufFile> file;
  std::optional<GeneratedModel> generated;
  DecoderConfig config;
  DecoderTensors tensors;
};

Source open_source(const EngineOptions& o) {
  Source source;
  if (!o.model.empty()) {
    source.file = GgufFile::open(o.model).value();
    source.config = read_decoder_config(*source.file).value();
    source.tensors = read_decoder_tensors(*source.file, source.config).value();
    return source;
  }
  const auto type = dtype_from_name(o.type);
  if (!type) {
    std::string names;
    for (const DType t : kDTypes)
      names += (names.empty() ? "" : ", ") + std::string(traits(t).name);
    throw Failure({Errc::usage, "--type " + o.type + " is none of " + names});
  }
  source.generated = GeneratedModel::make(o.shape, *type).value();
  source.config = source.generated->config();
  source.tensors = source.generated->tensors();
  return source;
}

// What a pass reads and computes in its matrices and in attention.
struct Cost {
  double bytes = 0;
  double operations_a_row = 0;
  double short_operations_a_row = 0;      // of them, with weights of six bits or fewer
  double cache_bytes = 0;                 // keys and values of the context
  double attention_operations_a_row = 0;  // of float32
  bool is_quantised = false;
  bool is_bf16 = true;  // all of it

  void add(const TensorView& matrix) {
    bytes += static_cast<double>(matrix.bytes.size());
    operations_a_row += 2.0 * matrix.rows * matrix.cols;
    const bool is_block = traits(matrix.type).block_count > 1;
    if (is_block && matrix.type != DType::q8_0) {
      short_operations_a_row += 2.0 * matrix.rows * matrix.cols;
    }
    is_quantised |= is_block;
    is_bf16 &= matrix.type == DType::bf16;
  }
};

Cost cost_of(const DecoderTensors& tensors) {
  Cost cost;
  cost.add(tensors.output.value_or(tensors.token_embd));
  for (const LayerTensors& layer : tensors.layers) {
    for (const TensorView* matrix :
         {&layer.attn_q, &layer.attn_k, &layer.attn_v, &layer.attn_output, &layer.ffn_gate,
          &layer.ffn_up, &layer.ffn_down}) {
      cost.add(*matrix);
    }
  }
  return cost;
}

// What bounds a pass: reading, or operations at the peak of vector instructions and of tiles.
struct Limits {
  double vector_seconds;
  std::optional<double> tile_seconds;  // absent where no tiles are used
};

Limits limits_of(const Cost& cost, std::uint32_t width, const MachineLimits& machine) {
  const double reading = (cost.bytes + cost.cache_bytes) / machine.read_bytes_per_second;
  const double operations = cost.operations_a_row * width;
  const double attention =
      cost.attention_operations_a_row * width / machine.float_operations_per_second;
  const double tile_peak = cost.is_quantised ? machine.tile_operations_per_second
                           : cost.is_bf16    ? machine.bf16_tile_operations_per_second / 3
                                             : 0.0;
  double computing = operations / machine.float_operations_per_second;
  if (cost.is_quantised) {
    const double int8_peak = machine.int8_operations_per_second;
    const double short_peak =
        machine.short_operations_per_second > 0.0 ? machine.short_operations_per_second : int8_peak;
    const double shorts = cost.short_operations_a_row * width;
    computing = (operations - shorts) / int8_peak + shorts / short_peak;
  }
  Limits limits{.vector_seconds = std::max(reading, computing + attention)};
  if (tile_peak > 0.0) {
    limits.tile_seconds = std::max(reading, operations / tile_peak + attention);
  }
  return limits;
}

struct Times {
  std::vector<double> seconds;
  double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double median() const {
    std::vector<double> sorted = seconds;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    return sorted[sorted.size() / 2];
  }
};

// Passes behind a context, always over the same slots.
class Passes {
 public:
  // `page_slots`: of the pages that keys and values lie in; 0: in a row.
  Passes(Decoder& decoder, std::uint32_t context, std::uint32_t page_slots, DType kv_type)
      : decoder_(decoder),
        kv_type_(kv_type),
        pool_(make_pool(decoder, page_slots, kv_type)),
        cache_(make_cache()) {
    fill(context);
  }

  // One pass over `width` rows in a chain, logits of all.
  Matrix run(std::uint32_t width) {
    const auto rows = tokens(width, 2);
    std::vector<std::uint32_t> positions(width);
    for (std::uint32_t i = 0; i < width; ++i) positions[i] = cache_.length() + i;
    decoder_.forward(cache_, rows,
                     {.positions = positions,
                      .prefix = cache_.length(),
                      .first_slot = cache_.length(),
                      .masks = std::span(masks_).first(width)});
    return decoder_.logits(0, width);
  }

  // The same, and waits for it.
  void run_and_wait(std::uint32_t width) {
    float number = 0.0f;
    decoder_.backend().read(run(width).row_range(0, 1).column_range(0, 1), {&number, 1});
  }

  // The first row's logits do not depend on the others. Throws a Failure where they do.
  void check(std::uint32_t width) {
    const std::vector<float> alone = first_row(1);
    const std::vector<float> together = first_row(width);
    if (std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) != 0) {
      throw Failure({Errc::unsupported, "wrong answer at width " + std::to_string(width)});
    }
  }

  double prompt_seconds(std::uint32_t count) {
    const auto prompt = tokens(count, 3);
    KvCache cache = make_cache();
    const Instant start = Clock::now();
    const std::uint32_t rows = decoder_.append(cache, prompt);
    float number = 0.0f;
    decoder_.backend().read(decoder_.logits(rows - 1, 1).column_range(0, 1), {&number, 1});
    return seconds(Clock::now() - start);
  }

  // Decodes `count` tokens greedily, one row a pass, and returns how many of them a pass over 64 of
  // them chooses differently.
  std::uint32_t mismatches(std::uint32_t count) {
    constexpr std::uint32_t kRows = 64;
    KvCache cache = make_cache();
    std::vector<std::uint32_t> text = tokens(1, 4);
    std::vector<std::uint32_t> chosen(1);
    while (text.size() <= count) {
      decoder_.append(cache, std::span(text).last(1));
      decoder_.backend().argmax({.logits = decoder_.logits(0, 1), .tokens = chosen});
      text.push_back(chosen[0]);
    }
    cache.set_length(0);
    std::uint32_t different = 0;
    for (std::uint32_t first = 0; first < count; first += kRows) {
      const std::uint32_t rows = std::min(kRows, count - first);
      decoder_.append(cache, std::span(text).subspan(first, rows));
      chosen.resize(rows);
      decoder_.backend().argmax({.logits = decoder_.logits(0, rows), .tokens = chosen});
      for (std::uint32_t row = 0; row < rows; ++row) {
        different += chosen[row] != text[first + row + 1] ? 1 : 0;
      }
    }
    return different;
  }

 private:
  // Room for the timed sequence, that of the prompt, and one beside each of them.
  static std::unique_ptr<KvPool> make_pool(Decoder& decoder, std::uint32_t page_slots, DType type) {
    if (page_slots == 0) return nullptr;
    KvPool::Size size{.layers = decoder.config().layer_count,
                      .kv_cols = decoder.config().layer.heads.kv_cols(),
                      .page_count = 0,
                      .page_slots = page_slots,
                      .type = type};
    size.page_count = 4 * size.pages_for(decoder.slots_max());
    return std::make_unique<KvPool>(decoder.backend(), size);
  }

  // Its pages, if any, lie between those of another sequence that grew beside it.
  KvCache make_cache() {
    if (!pool_) return decoder_.make_cache(kv_type_);
    KvCache cache = decoder_.make_cache(*pool_);
    KvCache other = decoder_.make_cache(*pool_);
    while (cache.slots() < cache.capacity()) {
      const std::uint32_t more = cache.slots() + pool_->size().page_slots;
      for (KvCache* grown : {&cache, &other}) {
        EDGEDRAFT_CHECK(grown->reserve(std::min(more, grown->capacity())));
      }
    }
    return cache;
  }

  // A context of made-up keys and values: no time depends on what they are, and running thousands
  // of tokens would take minutes.
  void fill(std::uint32_t context) {
    const std::uint32_t cols = decoder_.config().layer.heads.kv_cols();
    const OwnedMatrix rows(decoder_.backend(), std::max(context, 1u), cols);
    std::vector<float> numbers(std::size_t{rows.all().rows} * cols);
    Random random(1);
    for (float& number : numbers) number = static_cast<float>(2.0 * random.uniform() - 1.0);
    decoder_.backend().write(rows.all(), numbers);
    for (std::size_t layer = 0; layer < cache_.keys().size(); ++layer) {
      for (const CacheView& cache : {cache_.keys()[layer], cache_.values()[layer]}) {
        decoder_.backend().store({.x = rows.rows(context), .cache = cache, .first = 0});
      }
    }
    cache_.set_length(context);
  }

  std::vector<std::uint32_t> tokens(std::uint32_t count, std::uint32_t seed) const {
    std::vector<std::uint32_t> numbers(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      numbers[i] = (i * 7919 + seed * 104729) % decoder_.config().vocabulary_count;
    }
    return numbers;
  }
  std::vector<float> first_row(std::uint32_t width) {
    const Matrix logits = run(width).row_range(0, 1);
    std::vector<float> row(logits.cols);
    decoder_.backend().read(logits, row);
    return row;
  }

  Decoder& decoder_;
  DType kv_type_;
  std::unique_ptr<KvPool> pool_;
  KvCache cache_;
  std::vector<AncestorMask> masks_ = causal_masks(kMaskRowsMax);
};

// Calls `between` after every round.
template <class Between>
std::vector<Times> time_widths(Passes& passes, const EngineOptions& o, const Between& between) {
  constexpr int kRounds = 3;
  std::vector<Times> times(o.widths.size());
  for (const std::uint32_t width : o.widths) {
    if (o.device == "cpu" || o.deterministic) passes.check(width);
    passes.run_and_wait(width);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < o.widths.size(); ++i) {
      double total = 0.0;
      while (total < o.seconds / kRounds) {
        const Instant start = Clock::now();
        passes.run_and_wait(o.widths[i]);
        times[i].seconds.push_back(seconds(Clock::now() - start));
        total += times[i].seconds.back();
      }
    }
    between();
  }
  return times;
}

void run_engine(const EngineOptions& o) {
  const Source source = open_source(o);
  const std::uint32_t positions = std::max({o.context + kMaskRowsMax, o.prompt, o.mismatch + 1});
  if (positions > source.config.context_length) {
    throw Failure(
        {Errc::usage, "--context, --prompt and --mismatch do not fit the model's context of " +
                          std::to_string(source.config.context_length)});
  }
  LimitMeter meter(o.threads);
  meter.measure();
  const OpenedDevice device =
      open_device({.device = o.device,
                   .threads = o.threads,
                   .deterministic = o.deterministic,
                   .cuda_graphs = !o.no_cuda_graphs,
                   .on_notice =
                       [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); }})
          .value();
  const bool on_cpu = device.backend->name() == "cpu";
  Backend* const backend = device.backend.get();
  const Instant start = Clock::now();
  Decoder decoder(*backend, source.config, source.tensors, positions);
  const double load_seconds = seconds(Clock::now() - start);
  const DType kv_type = dtype_from_name(o.kv_type).value();
  Passes passes(decoder, o.context, o.page, kv_type);
  Cost cost = cost_of(source.tensors);
  const HeadShape& heads = source.config.layer.heads;
  const double positions_read = double{1} * source.config.layer_count * o.context;
  cost.cache_bytes =
      positions_read * static_cast<double>(cache_bytes(kv_type, 2 * heads.kv_cols()));
  cost.attention_operations_a_row = positions_read * 4 * heads.query_cols();

  if (!o.json && !on_cpu) std::printf("%s\n", device.reason.c_str());
  if (!o.json) {
    std::printf("%s: %.1f MB a pass, %.2f GOP a row; ready after %.0f ms\n",
                o.model.empty() ? (o.shape + " in " + o.type).c_str() : o.model.c_str(),
                cost.bytes * 1e-6, cost.operations_a_row * 1e-9, load_seconds * 1e3);
    std::printf("%u tokens of context: %.1f MB of keys and values in %s\n\n", o.context,
                cost.cache_bytes * 1e-6, o.kv_type.c_str());
    std::fflush(stdout);
  }
  const std::vector<Times> times = time_widths(passes, o, [&] {
    if (on_cpu) meter.measure();
  });
  const MachineLimits& limits = meter.best();
  nlohmann::json report{
      {"model", o.model.empty() ? o.shape : o.model},
      {"device", device.reason},
      {"instruction_set", limits.instruction_set},
      {"threads", limits.threads},
      {"limit_read_bytes_per_second", limits.read_bytes_per_second},
      {"limit_int8_operations_per_second", limits.int8_operations_per_second},
      {"limit_short_operations_per_second", limits.short_operations_per_second},
      {"limit_tile_operations_per_second", limits.tile_operations_per_second},
      {"limit_bf16_tile_operations_per_second", limits.bf16_tile_operations_per_second},
      {"limit_float_operations_per_second", limits.float_operations_per_second},
      {"weight_bytes", cost.bytes},
      {"operations_a_row", cost.operations_a_row},
      {"load_seconds", load_seconds},
      {"context", o.context},
      {"page", o.page},
      {"kv_type", o.kv_type},
      {"cache_bytes", cost.cache_bytes},
      {"passes", nlohmann::json::array()}};
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
      std::printf("(those are vector instructions; on tiles int8 %.0f GOP/s, bf16 %.0f GFLOP/s)\n",
                  limits.tile_operations_per_second * 1e-9,
                  limits.bf16_tile_operations_per_second * 1e-9);
    }
  }
  if (!o.json) {
    const bool has_tiles = on_cpu && limits_of(cost, 1, limits).tile_seconds.has_value();
    std::printf("width    best ms  median ms   tokens/s      GB/s     GOP/s    share%s\n",
                has_tiles ? " of tiles" : "");
  }
  for (std::size_t i = 0; i < o.widths.size(); ++i) {
    const std::uint32_t width = o.widths[i];
    const double best = times[i].best();
    const double median = times[i].median();
    const Limits limit = limits_of(cost, width, limits);
    nlohmann::json pass{
        {"width", width},           {"seconds_best", best},      {"seconds_median", median},
        {"limit_seconds", nullptr}, {"share_of_limit", nullptr}, {"share_of_tile_limit", nullptr}};
    if (on_cpu) {
      pass["limit_seconds"] = limit.vector_seconds;
      pass["share_of_limit"] = limit.vector_seconds / best;
      if (limit.tile_seconds) pass["share_of_tile_limit"] = *limit.tile_seconds / best;
    }
    report["passes"].push_back(std::move(pass));
    if (o.json) continue;
    std::printf("%5u %10.3f %10.3f %10.1f %9.1f %9.1f", width, best * 1e3, median * 1e3,
                width / median, (cost.bytes + cost.cache_bytes) / best * 1e-9,
                cost.operations_a_row * width / best * 1e-9);
    if (!on_cpu) {
      std::puts("       -");
    } else if (limit.tile_seconds) {
      std::printf(" %6.0f %% %6.0f %%\n", 100.0 * limit.vector_seconds / best,
                  100.0 * *limit.tile_seconds / best);
    } else {
      std::printf(" %6.0f %%\n", 100.0 * limit.vector_seconds / best);
    }
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
}

}  // namespace

void add_engine_command(CLI::App& program) {
  const auto options = std::make_shared<EngineOptions>();
  CLI::App* command = program.add_subcommand("engine", "passes of a decoder by number of rows");
  command->footer(kHelp);
  command->add_option("--model", options->model, "a target, or an independent drafter")
      ->type_name("FILE.gguf");
  command
      ->add_option("--shape", options->shape,
                   "random weights instead: tinyllama, llama3-8b, qwen2-0.5b or demo")
      ->capture_default_str();
  command->add_option("--type", options->type, "the type of random weights")->capture_default_str();
  command->add_option("--widths", options->widths, "numbers of rows, such as 1,2,62")
      ->delimiter(',')
      ->check(CLI::Range(1u, kMaskRowsMax));
  command->add_option("--context", options->context, "tokens before those of a pass")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  command->add_option("--prompt", options->prompt, "tokens of the prompt; 0: none")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  command
      ->add_option("--page", options->page,
                   "positions in a page of keys and values, as a server has them (32); 0: no pages")
      ->check([](const std::string& text) {
        const bool power =
            text == "0" || std::has_single_bit(std::strtoul(text.c_str(), nullptr, 10));
        return power ? std::string() : std::string("give 0 or a power of two");
      })
      ->capture_default_str();
  command->add_option("--kv-type", options->kv_type, "keys and values: f32, f16 or bf16")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "0: one a core")->capture_default_str();
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--deterministic", options->deterministic,
                    "on a GPU: one order of summation for every width");
  command->add_flag("--no-cuda-graphs", options->no_cuda_graphs,
                    "on a GPU: every kernel is started by itself");
  command
      ->add_option("--mismatch", options->mismatch,
                   "greedy tokens to compare between passes of 1 and of 64 rows; 0: none")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "time spent on each width")
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object instead of a table");
  command->callback([options] { run_engine(*options); });
}

}  // namespace edgedraft::bench
