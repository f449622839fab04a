#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "netsim/pace_profile.h"
#include "netsim/profile.h"
#include "netsim/report/statistics.h"
#include "server/program/model_host.h"
#include "shared/base/error.h"
#include "shared/base/progress.h"
#include "shared/drafting/kinds.h"
#include "shared/drafting/training_record.h"
#include "shared/model/gguf.h"
#include "shared/program/program.h"
#include "shared/protocol/activation_codec.h"
#include "shared/tensor/dtype.h"
#include "tests/bench/acceptance_counts.h"
#include "tests/bench/answer_walk.h"
#include "tests/bench/bench_device.h"
#include "tests/bench/commands.h"
#include "tests/bench/drafter_arms.h"
#include "tests/bench/serving.h"
#include "tests/support/drafted_answer.h"

namespace edgedraft::bench {
using namespace server;
namespace {

struct DraftersOptions {
  ArmOptions arms{.threads = 1};
  std::uint32_t prompts_per_task = 0;  // 0: all
  std::uint32_t chain = 4;
  std::vector<std::uint32_t> lags{4, 8, 16};
  std::vector<std::string> links{"lan", "paper-5g", "paper-4g"};
  std::filesystem::path pace_profile;  // empty: times are measured on this machine
  bool padded_payloads = false;
  bool json = false;
};

constexpr const char* kDraftersHelp =
    R"(Compares drafters of one target on held-out prompts, one row per drafter:

  tau       tokens per target pass in cycles that wait for their verdicts, including the target's own
            (plain decoding: 1), with chains and with trees: the unweighted mean of the tasks, and its
            95 % interval if each task has five prompts or more
  passes, rows  of the target per token, with trees
  device    milliseconds of drafting per cycle, with trees, on --device
  up, down  bytes per token between device and server, with trees, without TLS; the prompt and all its
            activations are included and divided by the answer's tokens
  row       bytes of one position's activations
  likeliest how often the likeliest proposal is the target's token; then for each --lags, in tokens since
            the newest activations, and for the same roots without the lag (-: no answer is that long)
  device ms by lag  of drafting a tree at such roots, without reading the prompt
  alone     offline text after the first half of an answer: the share of tokens that equal the target's,
            and the number of tokens before the first difference
  t/s       tokens per second over each link, in simulated time: hold lockstep / hold none. Passes and
            drafting take their time on this machine (with --threads 1 on the CPU: processor time), or
            the time in --pace-profile. Each link and hold answers all prompts once, one after another
            over one connection, including sign-in. --json adds the ratio to plain decoding, prompt by
            prompt, with its 95 % interval for five prompts or more
  trained   parameters in the bundle that are not its target's, and the cost of their training if the
            bundle records it

Activations pass through the link's int8 codec. Every answer is compared with plain decoding, token for
token; the exit status is 1 if one differs. The first row is plain decoding, a run without hints.

Example:
  edgedraft-bench drafters --model models/demo/target.gguf --prompts models/demo/heldout.jsonl \
    --bundle models/demo/moa-tli0.gguf --bundle models/demo/independent.gguf --kinds ngram)";

constexpr Duration kNoTimeLimit = std::chrono::hours(24 * 365);

// Forwards to a drafter and counts its time.
class TimedDrafter final : public Drafter {
 public:
  TimedDrafter(Drafter& drafter, const WorkClock& clock) : drafter_(drafter), clock_(clock) {}

  Duration taken() const { return taken_; }

  std::uint32_t token_count() const override { return drafter_.token_count(); }
  void append(std::span<const std::uint32_t> tokens) override {
    timed([&] { drafter_.append(tokens); });
  }
  void truncate(std::uint32_t count) override {
    timed([&] { drafter_.truncate(count); });
  }
  std::uint32_t activation_cols() const override { return drafter_.activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    timed([&] { drafter_.add_activations(first, rows); });
  }
  void drop_activations(std::uint32_t first) override {
    timed([&] { drafter_.drop_activations(first); });
  }
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override {
    bool done = false;
    timed([&] { done = drafter_.grow(growth, budget); });
    return done;
  }
  std::span<const float> next_logits() override { return drafter_.next_logits(); }

 private:
  template <class Work>
  void timed(const Work& work) {
    const Instant began = clock_.now();
    work();
    taken_ += clock_.now() - began;
  }

  Drafter& drafter_;
  const WorkClock& clock_;
  Duration taken_{};
};

struct Speed {
  double tokens_per_second = 0.0;
  std::optional<netsim::Estimate> by_plain{};  // speedup over plain decoding
};

struct LinkSpeeds {
  std::string link;
  Speed sequential;
  std::optional<Speed> overlap{};  // empty for a stream
};

struct Row {
  std::string drafter;
  CountsByTask chain;
  CountsByTask tree;
  Duration drafting{};
  LagCounts lags;
  WrittenAlone alone;
  std::vector<LinkSpeeds> speeds;
  std::optional<double> bytes_up;
  std::optional<double> bytes_down;
  std::uint32_t row_bytes = 0;
  std::uint64_t trained = 0;
  std::optional<TrainingRecord> training{};
  std::uint32_t differing = 0;
};

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
double total_of(const CountsByTask& tasks, std::vector<double> TaskCounts::*part) {
  double sum = 0.0;
  for (const auto& [task, counts] : tasks) sum += total(counts.*part);
  return sum;
}

// True if `tensor` equals `targets`, possibly rounded to the type of `tensor`.
bool is_rounded_from(const GgufTensor& targets, const GgufTensor& tensor) {
  if (targets.dims != tensor.dims) return false;
  if (targets.type == tensor.type) return std::ranges::equal(targets.bytes, tensor.bytes);
  if (!is_writable(tensor.type)) return false;
  std::vector<float> numbers(tensor.cols());
  std::vector<std::byte> rounded(tensor.bytes.size() / tensor.rows());
  const std::size_t source_bytes = targets.bytes.size() / targets.rows();
  for (std::size_t row = 0; row < tensor.rows(); ++row) {
    dequantize_row(targets.type, targets.bytes.subspan(row * source_bytes, source_bytes), numbers);
    quantize_row(tensor.type, numbers, rounded);
    if (!std::ranges::equal(rounded, tensor.bytes.subspan(row * rounded.size(), rounded.size()))) {
      return false;
    }
  }
  return true;
}

// Elements of a bundle that do not come from the target's tensors.
Result<std::uint64_t> count_trained(const GgufFile& bundle, const GgufFile& target) {
  const auto kind = drafter_kind_of(bundle);
  if (!kind) return kind.error();
  const auto is_the_targets = [&](const GgufTensor& tensor) {
    if ((*kind)->is_from_target != nullptr && (*kind)->is_from_target(tensor.name)) return true;
    return std::ranges::any_of(
        target.tensors(), [&](const GgufTensor& other) { return is_rounded_from(other, tensor); });
  };
  std::uint64_t count = 0;
  for (const GgufTensor& tensor : bundle.tensors()) {
    if (!is_the_targets(tensor)) count += tensor.rows() * tensor.cols();
  }
  return count;
}

Result<void> tell_training(const std::filesystem::path& bundle, const GgufFile& target, Row& row) {
  const auto file = GgufFile::open(bundle);
  if (!file) return file.error();
  const auto trained = count_trained(*file, target);
  if (!trained) return trained.error();
  const auto training = read_training(*file);
  if (!training) return in_file(bundle, training.error());
  row.trained = *trained;
  row.training = *training;
  return {};
}

class Comparison {
 public:
  Comparison(const DraftersOptions& o, ModelHost& host, Backend& device, const TreeShape& tree,
             const ChatPrompts& texts, std::optional<PaceProfile> pace)
      : o_(o),
        host_(host),
        device_(device),
        tree_(tree),
        texts_(texts),
        pace_(std::move(pace)),
        counts_(o.arms.threads == 1 && o.arms.device == "cpu" ? WorkClock::Counts::processor
                                                              : WorkClock::Counts::wall) {}

  // Plain decoding, the baseline of the comparison.
  Result<Row> stream(std::span<const netsim::NetworkProfile> links) {
    Row row{.drafter = "plain"};
    for (const auto& link : links) {
      auto result = serve(link, nullptr, Hold::lockstep);
      if (!result) return result.error();
      if (row.speeds.empty()) count_bytes(*result, row);
      row.speeds.push_back(
          {.link = link.name, .sequential = {.tokens_per_second = tokens_per_second(*result)}});
      plain_seconds_.push_back(std::move(result->answer_seconds));
    }
    return row;
  }

  // Requires  an earlier stream() over the same links
  Result<Row> measure(const DrafterArm& arm, std::span<const netsim::NetworkProfile> links) {
    Row row{.drafter = arm.name};
    if (auto done = count_answers(arm, row); !done) return done.error();
    for (std::size_t i = 0; i < links.size(); ++i) {
      auto waiting = serve(links[i], &arm, Hold::lockstep);
      if (!waiting) return waiting.error();
      if (row.speeds.empty()) count_bytes(*waiting, row);
      auto ahead = serve(links[i], &arm, Hold::none);
      if (!ahead) return ahead.error();
      row.speeds.push_back({.link = links[i].name,
                            .sequential = speed_of(*waiting, plain_seconds_[i]),
                            .overlap = speed_of(*ahead, plain_seconds_[i])});
    }
    if (arm.tap != nullptr) row.row_bytes = layout_of(*arm.tap).row_bytes();
    return row;
  }

 private:
  static ActivationLayout layout_of(const Tap& tap) {
    const auto groups = tap.scale_groups();
    return ActivationLayout({groups.begin(), groups.end()});
  }

  Result<void> count_answers(const DrafterArm& arm, Row& row) {
    Progress progress(arm.name, texts_.prompts.size());
    const auto draft = [&](std::span<const std::uint32_t> prompt, const TreeShape& shape,
                           Duration& taken) -> Result<testing::DraftedAnswer> {
      const WorkClock clock(counts_);
      const auto drafter = arm.file.make_drafter(device_);
      TimedDrafter timed(*drafter, clock);
      auto answer = testing::drafted_answer(host_, {.prompt = prompt,
                                                    .tap = arm.tap,
                                                    .drafter = &timed,
                                                    .tree = shape,
                                                    .tokens_max = o_.arms.max_tokens,
                                                    .sampling = o_.arms.sampling()});
      taken += timed.taken();
      return answer;
    };
    // A GPU builds its pipelines on first use; that time is not drafting time.
    if (Duration making{}; o_.arms.device != "cpu") {
      if (auto first = draft(texts_.tokens.front(), tree_, making); !first) return first.error();
    }
    for (std::size_t i = 0; i < texts_.prompts.size(); ++i) {
      const auto& prompt = texts_.tokens[i];
      const auto session = answer_plainly(host_, prompt, o_.arms.sampling(), o_.arms.max_tokens);
      if (!session) return session.error();
      const auto plain = session->tokens().subspan(prompt.size());
      for (const bool is_tree : {false, true}) {
        const TreeShape shape = is_tree ? tree_ : chain_shape(o_.chain);
        Duration taken{};
        const auto answer = draft(prompt, shape, taken);
        if (!answer) return answer.error();
        row.differing += !std::ranges::equal(answer->tokens, plain);
        if (answer->stats.cycles == 0) continue;
        (is_tree ? row.tree : row.chain)[texts_.prompts[i].task].add(answer->stats);
        if (is_tree) row.drafting += taken;
      }
      const auto walked =
          walked_answer(*session, static_cast<std::uint32_t>(prompt.size()), arm.tap);
      if (!walked) return walked.error();
      const WorkClock clock(counts_);
      count_lags([&] { return arm.file.make_drafter(device_); }, *walked, o_.lags, tree_,
                 [&] { return clock.now(); }, row.lags);
      count_written_alone(*arm.file.make_drafter(device_), *walked, row.alone);
      progress.advance(1);
    }
    return {};
  }

  // Answers every prompt once, however long it takes, so that all arms are measured on the same
  // prompts.
  Result<ServingResult> serve(const netsim::NetworkProfile& link, const DrafterArm* arm,
                              Hold hold) {
    WorkClock clock(pace_ ? WorkClock::Counts::paces : counts_);
    return simulate_serving({.host = host_,
                             .drafter = arm,
                             .device_backend = device_,
                             .tree = tree_,
                             .clock = clock,
                             .measures_costs = true,
                             .pace = pace_ ? &*pace_ : nullptr,
                             .clients = 1,
                             .round_trip = {},
                             .up = &link.up,
                             .down = &link.down,
                             .hold = hold,
                             .sampling = o_.arms.sampling(),
                             .padded_payloads = o_.padded_payloads,
                             .warm_up = {},
                             .measured = kNoTimeLimit,
                             .answer_count = static_cast<std::uint32_t>(texts_.prompts.size()),
                             .tokens_max = o_.arms.max_tokens,
                             .prompts = texts_.tokens});
  }

  static double tokens_of(const ServingResult& result) {
    return std::accumulate(result.answer_tokens.begin(), result.answer_tokens.end(), 0.0);
  }
  static double tokens_per_second(const ServingResult& result) {
    return tokens_of(result) / total(result.answer_seconds);
  }
  static Speed speed_of(const ServingResult& result, const std::vector<double>& plain_seconds) {
    // The answers are the same, so only their times differ.
    return {.tokens_per_second = tokens_per_second(result),
            .by_plain = bootstrap_ratio({plain_seconds, result.answer_seconds})};
  }

  static void count_bytes(const ServingResult& result, Row& row) {
    const double tokens = tokens_of(result);
    row.bytes_up = static_cast<double>(result.bytes_up) / tokens;
    row.bytes_down = static_cast<double>(result.bytes_down) / tokens;
  }

  const DraftersOptions& o_;
  ModelHost& host_;
  Backend& device_;
  TreeShape tree_;
  const ChatPrompts& texts_;
  std::optional<PaceProfile> pace_;
  WorkClock::Counts counts_;
  std::vector<std::vector<double>> plain_seconds_;  // per answer, by link
};

double milliseconds_per_cycle(const Row& row) {
  const double cycles = total_of(row.tree, &TaskCounts::cycles);
  return cycles == 0.0 ? 0.0
                       : std::chrono::duration<double, std::milli>(row.drafting).count() / cycles;
}
double passes_per_token(const Row& row) {
  return total_of(row.tree, &TaskCounts::cycles) / total_of(row.tree, &TaskCounts::tokens);
}

void print(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::printf("%s\n", row.drafter.c_str());
    if (!row.tree.empty()) {
      const netsim::Estimate chain = mean_acceptance_length(row.chain);
      const netsim::Estimate tree = mean_acceptance_length(row.tree);
      std::printf("  tau %.2f %s in chains, %.2f %s in trees", chain.value,
                  interval_text(chain).c_str(), tree.value, interval_text(tree).c_str());
      std::printf("; passes %.3f, rows %.2f; device %.2f ms\n", passes_per_token(row),
                  mean_rows_per_token(row.tree), milliseconds_per_cycle(row));
      std::printf("  likeliest");
      for (const auto& [lag, counted] : row.lags) {
        if (lag == 0) {
          std::printf(" %s", share_text(counted.with.value()).c_str());
        } else {
          std::printf(", lag %u: %s of %s", lag, share_text(counted.with.value()).c_str(),
                      share_text(counted.without.value()).c_str());
        }
      }
      std::printf("\n  device ms by lag");
      for (const auto& [lag, counted] : row.lags) {
        const auto time = counted.milliseconds_per_cycle();
        if (time) std::printf("  %u: %.2f", lag, *time);
      }
      std::printf("\n");
    }
    if (row.alone.right.count > 0) {
      std::printf("  alone: %s right, %.1f tokens before the first difference\n",
                  share_text(row.alone.right.value()).c_str(),
                  total(row.alone.before_difference) /
                      static_cast<double>(row.alone.before_difference.size()));
    }
    if (row.bytes_up) {
      std::printf("  bytes up %.1f, down %.1f, row %u\n", *row.bytes_up, *row.bytes_down,
                  row.row_bytes);
    }
    std::printf("  t/s");
    for (const LinkSpeeds& speeds : row.speeds) {
      std::printf("  %s %.1f", speeds.link.c_str(), speeds.sequential.tokens_per_second);
      if (speeds.overlap) std::printf(" / %.1f", speeds.overlap->tokens_per_second);
    }
    std::printf("\n");
    if (row.trained > 0) {
      std::printf("  trained %llu", static_cast<unsigned long long>(row.trained));
      if (row.training) {
        std::printf(" on %.1f million tokens in %u steps and %.1f minutes",
                    row.training->million_tokens, row.training->steps, row.training->minutes);
        if (row.training->drafters > 1) {
          std::printf(" (%u drafters in parallel)", row.training->drafters);
        }
      }
      std::printf("\n");
    }
    if (row.differing > 0) {
      std::printf("  answers that differ from plain decoding: %u\n", row.differing);
    }
  }
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json json{{"drafter", row.drafter}};
  if (!row.tree.empty()) {
    json["tau_chain"] = estimate_json("value", mean_acceptance_length(row.chain));
    json["tau_tree"] = estimate_json("value", mean_acceptance_length(row.tree));
    json["passes_per_token"] = passes_per_token(row);
    json["rows_per_token"] = mean_rows_per_token(row.tree);
    json["device_ms_per_cycle"] = milliseconds_per_cycle(row);
    auto& lags = json["acceptance_by_lag"] = nlohmann::ordered_json::array();
    for (const auto& [lag, counted] : row.lags) {
      lags.push_back({{"lag", lag},
                      {"roots", counted.without.count},
                      {"likeliest", share_json(counted.with.value())},
                      {"likeliest_without", share_json(counted.without.value())},
                      {"device_ms_per_cycle", share_json(counted.milliseconds_per_cycle())}});
    }
    json["offline"] = nullptr;
    if (row.alone.right.count > 0) {
      json["offline"] = {
          {"right", share_json(row.alone.right.value())},
          {"before_difference", total(row.alone.before_difference) /
                                    static_cast<double>(row.alone.before_difference.size())}};
    }
    json["trained_parameters"] = row.trained;
    json["training"] = nullptr;
    if (row.training) {
      json["training"] = {{"steps", row.training->steps},
                          {"million_tokens", row.training->million_tokens},
                          {"minutes", row.training->minutes},
                          {"drafters", row.training->drafters}};
    }
    json["differing"] = row.differing;
  }
  json["activation_row_bytes"] = row.row_bytes;
  json["bytes_up_per_token"] = row.bytes_up ? nlohmann::ordered_json(*row.bytes_up) : nullptr;
  json["bytes_down_per_token"] = row.bytes_down ? nlohmann::ordered_json(*row.bytes_down) : nullptr;
  const auto tell = [&json](const std::string& link, const char* way, const Speed& speed) {
    json["tokens_per_second"][link][way] = speed.tokens_per_second;
    if (speed.by_plain) json["times_plain"][link][way] = estimate_json("value", *speed.by_plain);
  };
  for (const LinkSpeeds& speeds : row.speeds) {
    tell(speeds.link, "sequential", speeds.sequential);
    if (speeds.overlap) tell(speeds.link, "overlap", *speeds.overlap);
  }
  return json;
}

void declare_drafters(CLI::App& app, DraftersOptions& o) {
  app.footer(kDraftersHelp);
  declare_arms(app, o.arms);
  app.add_option("--prompts-per-task", o.prompts_per_task,
                 "Prompts per task, the first ones; 0: all")
      ->capture_default_str();
  app.add_option("--chain", o.chain, "Tokens per drafted chain")
      ->check(CLI::Range(1u, kTreeDepthMax))
      ->capture_default_str();
  app.add_option("--lags", o.lags, "Lags to measure, in tokens")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--links", o.links, "Networks: names or files of profiles")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--pace-profile", o.pace_profile,
                 "Times of named hardware instead of this machine's")
      ->type_name("FILE.toml");
  app.add_flag("--padded-payloads", o.padded_payloads,
               "With --pace-profile: activations have the paced model's size");
  app.add_flag("--json", o.json, "JSON instead of text");
}

// Prints one row per drafter. Returns the exit status: 1 if an answer differs from plain decoding.
Result<int> run_drafters(const DraftersOptions& o) {
  if (auto checked = check_arms(o.arms); !checked) return checked.error();
  const auto tree = tree_of(o.arms.tree);
  if (!tree) return tree.error();
  const auto links = read_links(o.links);
  if (!links) return links.error();
  std::optional<PaceProfile> pace;
  if (!o.pace_profile.empty()) {
    auto read = PaceProfile::read(o.pace_profile);
    if (!read) return read.error();
    pace = *std::move(read);
  }
  if (o.padded_payloads && !(pace && pace->pads_activations())) {
    return Error{Errc::usage, "--padded-payloads needs a --pace-profile with [activation_bytes]"};
  }
  const auto texts = read_chat_prompts(o.arms, o.prompts_per_task);
  if (!texts) return texts.error();
  const auto backend = make_cpu_backend({.threads = o.arms.threads});
  const auto device = open_drafter_device(o.arms.device, o.arms.features, o.arms.threads);
  if (!device) return device.error();
  auto host = ModelHost::load(
      *backend, {.model = o.arms.model, .bundles = o.arms.bundles, .context_count = 0});
  if (!host) return host.error();
  const auto arms = open_arms(o.arms, **host);
  if (!arms) return arms.error();
  const Payloads payloads = o.padded_payloads ? Payloads::padded : Payloads::own;
  for (const DrafterArm& arm : *arms) {
    if (!pace) break;
    if (auto good = check_pace(*pace, arm.file.drafter_facts(), payloads); !good) {
      return good.error();
    }
  }

  const auto target = GgufFile::open(o.arms.model);
  if (!target) return target.error();

  Comparison comparison(o, **host, **device, *tree, *texts, std::move(pace));
  auto plain = comparison.stream(*links);
  if (!plain) return plain.error();
  std::vector<Row> rows{*std::move(plain)};
  for (std::size_t a = 0; a < arms->size(); ++a) {
    auto row = comparison.measure((*arms)[a], *links);
    if (!row) return row.error();
    if (a < o.arms.bundles.size()) {
      const auto told = tell_training(o.arms.bundles[a], *target, *row);
      if (!told) return told.error();
    }
    rows.push_back(*std::move(row));
  }
  if (o.json) {
    nlohmann::ordered_json lines = nlohmann::ordered_json::array();
    for (const Row& row : rows) lines.push_back(to_json(row));
    std::printf("%s\n", lines.dump(2).c_str());
  } else {
    print(rows);
  }
  return std::ranges::all_of(rows, [](const Row& row) { return row.differing == 0; }) ? 0 : 1;
}

}  // namespace

void add_drafters(Program& program) {
  static DraftersOptions options;
  program.command("drafters", "Compare drafters of one target", options, declare_drafters,
                  run_drafters);
}

}  // namespace edgedraft::bench
