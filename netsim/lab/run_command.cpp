#include "netsim/lab/commands.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "netsim/lab/cut_link.h"
#include "netsim/lab/cycle_log.h"
#include "netsim/lab/oracle_drafter.h"
#include "netsim/lab/paced_drafter.h"
#include "netsim/pace_profile.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"

namespace edgedraft::lab {
namespace {

Result<void> check(const LabRunOptions& o) {
  const client::OptionValues& answer = o.run.answer;
  const bool is_paced = o.pace_ms > 0 || !o.pace_profile.empty();
  if (answer.plain && answer.config.offline_bundle.empty()) {
    if (is_paced) {
      return usage_error(
          "--pace-ms and --pace-profile need a drafter, and --plain has none: leave one of them "
          "out");
    }
    if (o.offline_after) {
      return usage_error(
          "--offline-after: --plain has no drafter to continue with; leave one of them out");
    }
  }
  if (o.pace_ms > 0 && !o.pace_profile.empty()) {
    return usage_error("--pace-ms and --pace-profile exclude each other: give one");
  }
  if (o.beside_target && o.pace_profile.empty()) {
    return usage_error("--pace-beside-target needs --pace-profile");
  }
  if (is_paced && !answer.config.offline_bundle.empty()) {
    return usage_error(
        "--offline-bundle writes at its own pace: remove --pace-ms and --pace-profile");
  }
  if (o.oracle.empty() && (o.oracle_acceptance || o.oracle_seed)) {
    return usage_error("--oracle-acceptance and --oracle-seed need --oracle");
  }
  if (!o.oracle.empty() && answer.plain) {
    return usage_error("--oracle and --plain exclude each other: give one");
  }
  return {};
}

// One answer, with the experiment's wrappers around the product's parts.
class LabRun {
 public:
  explicit LabRun(const LabRunOptions& options) : options_(options) {}

  Result<int> run() {
    if (auto read = read_files(); !read) return read.error();
    client::RunOptions run = options_.run;
    client::ClientSettings& config = run.answer.config;
    config.learns =
        !oracle_ && !options_.offline_after && options_.pace_ms == 0 && profile_.name().empty();
    config.hooks = {
        .on_bundle = [this](const client::BundleFile& bundle) { return take(bundle); },
        .drafter = [this](std::unique_ptr<Drafter> drafter) { return wrap(std::move(drafter)); },
        .link = [this](std::unique_ptr<TargetLink> link) { return wrap(std::move(link)); },
        .on_cycle = {}};
    if (!options_.cycles.empty()) {
      config.hooks.on_cycle = [this](const client::CycleRecord& cycle) { log_->write(cycle); };
    }
    const auto status = client::run_once(run);
    if (!log_) return status;
    const auto closed = log_->close(late_drafts_);
    if (status && !closed) return closed.error();
    return status;
  }

 private:
  Result<void> read_files() {
    if (!options_.pace_profile.empty()) {
      auto profile = PaceProfile::read(options_.pace_profile);
      if (!profile) return Error{profile.error().code, "--pace-profile " + profile.error().message};
      profile_ = *std::move(profile);
    }
    if (options_.oracle.empty()) return {};
    auto tokens = read_answer_tokens(options_.oracle);
    if (!tokens) return Error{tokens.error().code, "--oracle " + tokens.error().message};
    oracle_ = {.answer = *std::move(tokens),
               .acceptance = options_.oracle_acceptance.value_or(OracleOptions{}.acceptance),
               .seed = options_.oracle_seed.value_or(OracleOptions{}.seed)};
    return {};
  }

  Result<void> take(const client::BundleFile& bundle) {
    const DrafterFacts facts = bundle.drafter_facts();
    const auto place =
        options_.beside_target ? PaceProfile::Place::beside_target : PaceProfile::Place::device;
    // A drafter without weights takes almost no time on any hardware.
    if (facts.step_bytes > 0) {
      const auto listed = profile_.check_paces(facts.pace_name, place);
      if (!listed) return Error{listed.error().code, "--pace-profile: " + listed.error().message};
    }
    pace_ = {.least = std::chrono::milliseconds(options_.pace_ms),
             .step = profile_.draft_step(facts.pace_name, place)};
    vocabulary_count_ = bundle.tokenizer().vocabulary_count();
    if (options_.cycles.empty()) return {};
    const std::string kind(bundle.drafter_kind());
    CycleLogHead head{.drafter = kind.empty() ? "none" : kind,
                      .bundle = bundle.path().filename().string(),
                      .pace_profile = profile_.name(),
                      .synthetic_acceptance = {}};
    if (oracle_) {
      head.drafter = "oracle";
      head.synthetic_acceptance = oracle_->acceptance;
    }
    auto log = CycleLog::open(options_.cycles, head);
    if (!log) return log.error();
    log_ = *std::move(log);
    return {};
  }

  std::unique_ptr<Drafter> wrap(std::unique_ptr<Drafter> drafter) {
    // The link carries what the bundle's drafter needs; only the proposals are the oracle's.
    if (oracle_) {
      drafter =
          std::make_unique<OracleDrafter>(*oracle_, vocabulary_count_, drafter->activation_cols());
    }
    if (!pace_.is_kept()) return drafter;
    PaceClock clock;
    clock.on_late = [this] { ++late_drafts_; };
    return std::make_unique<PacedDrafter>(std::move(drafter), pace_, std::move(clock));
  }

  std::unique_ptr<TargetLink> wrap(std::unique_ptr<TargetLink> link) const {
    if (!options_.offline_after) return link;
    return std::make_unique<CutLink>(
        std::move(link), *options_.offline_after,
        "cut after " + std::to_string(*options_.offline_after) + " tokens by --offline-after");
  }

  const LabRunOptions& options_;
  PaceProfile profile_;
  std::optional<OracleOptions> oracle_;
  DraftingPace pace_;
  std::uint32_t vocabulary_count_ = 0;
  std::unique_ptr<CycleLog> log_;
  std::atomic<std::uint32_t> late_drafts_{0};
};

}  // namespace

void declare_lab_run(CLI::App& app, LabRunOptions& o) {
  client::declare_run(app, o.run);
  constexpr const char* kGroup = "Experiments";
  app.add_option("--cycles", o.cycles,
                 "Write a JSON line per cycle: phases, bytes, round trip, retransmissions")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--pace-ms", o.pace_ms,
                 "Minimum time of a drafting step, to run a small drafter at a large one's pace")
      ->type_name("MS")
      ->check(in_range(0u, 60'000u))
      ->group(kGroup);
  app.add_option("--pace-profile", o.pace_profile,
                 "Device profile (TOML) with each drafter's time per step, instead of --pace-ms")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_flag("--pace-beside-target", o.beside_target,
               "With --pace-profile: use the times of a drafter on the target's machine")
      ->group(kGroup);
  app.add_option("--offline-after", o.offline_after,
                 "Cut the link for good once the answer has N tokens")
      ->type_name("N")
      ->check(in_range(1u, kContextCountMax))
      ->group(kGroup);
  app.add_option("--oracle", o.oracle,
                 "Synthetic drafts: propose the answer in FILE (the output of --json for the same "
                 "prompt) instead of the drafter's own tokens")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--oracle-acceptance", o.oracle_acceptance,
                 "With --oracle: probability that the token proposed for a position is right "
                 "[default: 0.8]")
      ->type_name("A")
      ->check(in_range(0.0, 1.0))
      ->group(kGroup);
  app.add_option("--oracle-seed", o.oracle_seed,
                 "With --oracle: seed that selects the right positions [default: 0]")
      ->type_name("S")
      ->check(is_seed())
      ->group(kGroup);
}

Result<int> run_in_lab(const LabRunOptions& options) {
  if (auto right = check(options); !right) return right.error();
  return LabRun(options).run();
}

}  // namespace edgedraft::lab
