#include "netsim/run/runner.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "netsim/drivers/command.h"
#include "netsim/run/calibration.h"
#include "netsim/run/installation.h"
#include "netsim/run/manifest.h"
#include "netsim/run/results.h"
#include "shared/base/progress.h"
#include "shared/program/interrupt.h"

namespace edgedraft::netsim {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSlowStartAfterIdle = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
constexpr std::uint32_t kFailuresInARowMax = 3;
constexpr std::uint32_t kCalibrationsMax = 3;

// A missing bundle is an error before anything is measured.
Result<void> check_arms(const Experiment& e) {
  for (const Arm& arm : e.arms) {
    const std::string bundle = arm.bundle.empty() ? e.target : arm.bundle + ".gguf";
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(e.models / bundle, ignored)) {
      return Error{Errc::usage, "arm '" + arm.name + "': no file " + (e.models / bundle).string() +
                                    "; give its folder with --models"};
    }
  }
  return {};
}

// Arms beside the server are charged a measured round trip, so the link must have one.
Result<void> check_round_trips(const Experiment& e, const std::vector<NetworkProfile>& networks) {
  const auto beside = std::ranges::find(e.arms, Arm::Place::server, &Arm::place);
  const auto lossy = std::ranges::find_if_not(networks, is_measurable);
  if (beside == e.arms.end() || lossy == networks.end()) return {};
  return Error{
      Errc::usage,
      "arm '" + beside->name +
          "': a client beside the server is charged the link's measured round trip, but " +
          lossy->name +
          " loses too many packets to measure one; remove the network or place = \"server\""};
}

class Runner {
  using Block = std::span<const Trial>;

 public:
  Runner(const Experiment& e, const RunnerOptions& options, std::vector<NetworkProfile> networks)
      : e_(e),
        options_(options),
        networks_(std::move(networks)),
        stages_(plan(e, networks_)),
        driver_(options.driver) {}

  Result<void> run() {
    if (options_.dry_run && !options_.resume) {
      announce(expected([](const std::string&) { return false; }), 0);
      return {};
    }
    if (auto tried = try_links(); !tried) return tried;
    const std::string hash =
        experiment_hash(e_, networks_, options_.program, driver_, options_.parallel);
    auto opened =
        options_.dry_run
            ? ResultsFolder::look(options_.out, hash, options_.accept_any_link)
            : ResultsFolder::open(options_.out, options_.resume, hash, options_.accept_any_link);
    if (!opened) return opened.error();
    results_.emplace(std::move(*opened));
    const double total = expected([&](const std::string& id) { return results_->has(id); });
    announce(total, done_count());
    if (options_.dry_run) return {};
    if (!results_->resumed()) {
      manifest_ = make_manifest(e_, networks_, options_.program, driver_, tcp_,
                                options_.command_line, hash, total);
      if (auto written = results_->write_manifest(manifest_); !written) return written;
    }
    progress_.emplace(e_.name, static_cast<std::uint64_t>(1000 * total));
    Result<void> ended{};
    for (const Stage& stage : stages_) {
      ended = run_stage(stage);
      if (!ended) break;
    }
    progress_.reset();
    // On any end: partial results remain viewable.
    std::error_code ignored;
    if (std::filesystem::exists(results_->path() / "runs.jsonl", ignored)) {
      if (auto written = results_->write_csv(); !written && ended) return written;
    }
    if (!ended) return ended;
    return note_end();
  }

  const RunTally& tally() const { return tally_; }

 private:
  // All links of an experiment are of one kind, also when resumed. Opens each network's link once,
  // so that missing requirements are found before anything is measured.
  Result<void> try_links() {
    for (const NetworkProfile& network : networks_) {
      const auto link = make_link(network, driver_, e_.seeds.front());
      if (!link) return link.error();
      driver_ = (*link)->name();
      const auto idle = run_command((*link)->at_server({"cat", kSlowStartAfterIdle}));
      if (!idle) return idle.error();
      tcp_.slow_start_after_idle = idle->starts_with('1');
    }
    std::ifstream host("/proc/sys/net/ipv4/tcp_congestion_control");
    if (driver_ != "tun" && driver_ != "tc") host >> tcp_.host_congestion_control;
    return {};
  }

  template <class Done>
  double expected(Done done) const {
    double total = 0;
    for (const Stage& stage : stages_) {
      double warm_up = 0;
      double answers = 0;
      for (const Trial& trial : stage.trials) {
        if (!trial.warm_up && done(trial.id)) continue;
        (trial.warm_up ? warm_up : answers) += expected_trial_seconds(stage, trial);
      }
      if (answers == 0) continue;
      total += warm_up + answers +
               lanes(stage) * expected_overhead_seconds(e_, networks_[stage.network]);
    }
    return total;
  }

  // A trial's share of the total time. Lanes warm up side by side.
  double expected_trial_seconds(const Stage& stage, const Trial& trial) const {
    const double alone =
        expected_seconds(e_, networks_[stage.network], e_.devices[stage.device], trial);
    return trial.warm_up ? alone : alone / lanes(stage);
  }

  std::size_t done_count() const {
    std::size_t count = 0;
    for (const Stage& stage : stages_) {
      for (const Trial& trial : stage.trials) {
        count += !trial.warm_up && results_->has(trial.id) ? 1 : 0;
      }
    }
    return count;
  }

  void announce(double total, std::size_t done) {
    bool paced = false;
    for (const Stage& stage : stages_) {
      for (const Trial& trial : stage.trials) tally_.answers += trial.warm_up ? 0 : 1;
    }
    for (const DeviceProfile& device : e_.devices) {
      paced = paced || device.pace.paces_target() || device.pace.paces_drafter();
    }
    std::cerr << e_.name << (e_.quick ? " (quick)" : "") << ": " << tally_.answers
              << " answers over " << networks_.size() << " networks and " << e_.devices.size()
              << " devices, " << e_.arms.size() << " arms";
    if (done > 0) std::cerr << "; " << done << " already answered";
    std::cerr << ". Expected time: about " << duration_text(total) << ".\n";
    if (paced) {
      std::cerr << "Paced: small models are slowed to the times of named hardware; results record "
                   "this.\n";
    }
  }

  // Remaining work of a stage, shared by its lanes.
  struct Work {
    std::mutex mutex;  // guards this, results_, progress_ and tally_
    std::vector<Block> warm_ups;
    std::deque<Block> blocks;
    std::map<std::size_t, std::uint32_t> failures;  // in a row, by arm
    std::optional<Error> failed;                    // first failure of any lane; the others then
                                                    // stop
  };

  Result<void> run_stage(const Stage& stage) {
    Work work;
    for (const Block block : blocks_of(stage)) {
      if (block.front().warm_up) {
        work.warm_ups.push_back(block);
      } else if (std::ranges::any_of(block, [&](const Trial& t) { return !results_->has(t.id); })) {
        work.blocks.push_back(block);
      }
    }
    if (work.blocks.empty()) return finish_stage(stage);
    const std::size_t count = std::min<std::size_t>(lanes(stage), work.blocks.size());
    std::vector<std::unique_ptr<Testbed>> testbeds;
    for (std::size_t lane = 0; lane < count; ++lane) {
      auto testbed = open_lane(stage, lane);
      if (!testbed) return testbed.error();
      testbeds.push_back(std::move(*testbed));
    }
    {
      std::vector<std::jthread> threads;
      for (std::size_t lane = 0; lane < count; ++lane) {
        threads.emplace_back([&, lane] { run_lane(stage, lane, *testbeds[lane], work); });
      }
    }
    if (work.failed) return *work.failed;
    Result<void> accepted{};
    for (std::size_t lane = 0; lane < count; ++lane) {
      const auto measured = measure(testbeds[lane]->link(), stage, lane, "after");
      if (auto on = go_on_after(measured, accepted); !on) return on;
    }
    return accepted;
  }

  // An earlier run may have ended after a stage's last answer without measuring its links.
  Result<void> finish_stage(const Stage& stage) {
    Result<void> accepted{};
    for (const auto& [lane, session] : results_->unmeasured_lanes(stage.id)) {
      auto link = open_lanes_link(stage, lane - 1);
      if (!link) return link.error();
      const auto measured = measure(**link, stage, lane - 1, "after", session);
      if (auto on = go_on_after(measured, accepted); !on) return on;
    }
    return accepted;
  }

  // A link out of tolerance invalidates its own lane's answers only; other lanes continue, and
  // their links are measured as well. `accepted` keeps the first refusal.
  static Result<void> go_on_after(const Result<double>& measured, Result<void>& accepted) {
    if (measured) return {};
    if (measured.error().code != Errc::refused) return measured.error();
    if (accepted) accepted = measured.error();
    return {};
  }

  // Answers to one prompt are compared, so they share a link and a server.
  static std::vector<Block> blocks_of(const Stage& stage) {
    const auto key = [](const Trial& t) {
      return std::tuple(t.warm_up, t.repetition, t.clients, t.prompt);
    };
    std::vector<Block> blocks;
    for (auto first = stage.trials.begin(); first != stage.trials.end();) {
      const auto last = std::find_if(first, stage.trials.end(),
                                     [&](const Trial& t) { return key(t) != key(*first); });
      blocks.emplace_back(first, last);
      first = last;
    }
    return blocks;
  }

  std::uint32_t lanes(const Stage& stage) const {
    return options_.parallel > 0 ? options_.parallel : undisturbed_lanes(e_, stage.device);
  }

  Result<std::unique_ptr<LinkDriver>> open_lanes_link(const Stage& stage, std::size_t lane) const {
    return make_link(networks_[stage.network], driver_, stage.seed + 1000003 * lane);
  }

  // A lane's own link and server. An error of the link is recorded and ends the run.
  Result<std::unique_ptr<Testbed>> open_lane(const Stage& stage, std::size_t lane) {
    const std::filesystem::path work = results_->work() / ("lane-" + std::to_string(lane + 1));
    std::error_code failed;
    std::filesystem::create_directories(work, failed);
    if (failed) return Error{Errc::io, work.string() + ": " + failed.message()};
    auto link = open_lanes_link(stage, lane);
    if (!link) return link.error();
    const auto round_trip_ms = measure(**link, stage, lane, "before");
    if (!round_trip_ms) return round_trip_ms.error();
    auto testbed = Testbed::open({.experiment = e_,
                                  .network = networks_[stage.network],
                                  .device = e_.devices[stage.device],
                                  .seed = stage.seed,
                                  .program = options_.program,
                                  .link = std::move(*link),
                                  .work = work,
                                  .cancelled = interrupted});
    if (!testbed) return testbed.error();
    (*testbed)->set_round_trip(*round_trip_ms);
    return testbed;
  }

  Result<double> measure(LinkDriver& link, const Stage& stage, std::size_t lane, const char* when) {
    return measure(link, stage, lane, when, results_->session());
  }

  // `session`: the session whose answers used this link.
  // Returns   the median round trip in milliseconds
  Result<double> measure(LinkDriver& link, const Stage& stage, std::size_t lane, const char* when,
                         std::uint32_t session) {
    const NetworkProfile& network = networks_[stage.network];
    // Retries, since a measurement may be disturbed; a wrong link fails every time.
    const auto once = [&] {
      return calibrate(link, network, e_, results_->work(), stage.id, when, interrupted);
    };
    auto calibration = once();
    std::uint32_t attempts = 1;
    for (; calibration && !calibration->accepted && attempts < kCalibrationsMax; ++attempts) {
      calibration = once();
    }
    if (!calibration) return calibration.error();
    calibration->line["attempts"] = attempts;
    calibration->line["lane"] = lane + 1;
    calibration->line["session"] = session;
    progress_->advance(static_cast<std::uint64_t>(500 * expected_overhead_seconds(e_, network)));
    if (auto noted = note(*calibration); !noted) return noted.error();
    return calibration->round_trip_ms;
  }

  void run_lane(const Stage& stage, std::size_t lane, Testbed& testbed, Work& work) {
    const auto run_block = [&](Block block) -> Result<void> {
      for (const Trial& trial : block) {
        {
          const std::lock_guard lock(work.mutex);
          if (work.failed) return {};
          if (!trial.warm_up && results_->has(trial.id)) continue;
          if (work.failures[trial.arm] >= kFailuresInARowMax) {
            if (trial.warm_up) continue;
            ++tally_.left_out;
            progress_->advance(
                static_cast<std::uint64_t>(1000 * expected_trial_seconds(stage, trial)));
            continue;
          }
        }
        auto outcome = testbed.run(trial);
        if (!outcome) return outcome.error();
        for (ordered_json& run : outcome->runs) {
          run["lane"] = lane + 1;
          run["session"] = results_->session();
        }
        const std::lock_guard lock(work.mutex);
        // Warm-up counts once, not per lane.
        if (trial.warm_up && lane > 0) continue;
        progress_->advance(static_cast<std::uint64_t>(1000 * expected_trial_seconds(stage, trial)));
        if (trial.warm_up) continue;
        work.failures[trial.arm] = outcome->failure ? work.failures[trial.arm] + 1 : 0;
        if (auto added = results_->add_run(trial.id, outcome->runs, outcome->cycles); !added) {
          return added;
        }
        if (outcome->failure && tally_.failed++ == 0) {
          tally_.first_failure = "arm '" + e_.arms[trial.arm].name + "': " + *outcome->failure;
        }
      }
      return {};
    };
    const auto next = [&]() -> std::optional<Block> {
      const std::lock_guard lock(work.mutex);
      if (work.failed || work.blocks.empty()) return std::nullopt;
      const Block block = work.blocks.front();
      work.blocks.pop_front();
      return block;
    };
    Result<void> ended{};
    for (std::size_t i = 0; ended && i < work.warm_ups.size(); ++i) {
      ended = run_block(work.warm_ups[i]);
    }
    for (auto block = next(); ended && block; block = next()) ended = run_block(*block);
    if (ended) return;
    const std::lock_guard lock(work.mutex);
    if (!work.failed) work.failed = ended.error();
  }

  Result<void> note(const Calibration& calibration) {
    if (auto added = results_->add_calibration(calibration.line); !added) return added;
    if (calibration.accepted || options_.accept_any_link) return {};
    return Error{
        Errc::refused,
        "the link differs from its profile: " + calibration.complaint +
            "; if the machine was busy, try again with --resume; else widen [calibration] in the "
            "experiment, or accept the link with --accept-any-link, which the results record"};
  }

  Result<void> note_end() {
    if (manifest_.is_null()) {
      std::ifstream in(results_->path() / "manifest.json");
      manifest_ = ordered_json::parse(in, nullptr, false);
    }
    if (manifest_.is_object()) {
      manifest_["finished"] = utc_now();
      manifest_["left_out"] = tally_.left_out;
    }
    return results_->write_manifest(manifest_);
  }

  const Experiment& e_;
  const RunnerOptions& options_;
  std::vector<NetworkProfile> networks_;
  std::vector<Stage> stages_;
  std::string driver_;
  TcpSettings tcp_;
  std::optional<ResultsFolder> results_;
  std::optional<Progress> progress_;
  RunTally tally_;
  ordered_json manifest_;
};

}  // namespace

Result<RunTally> run_experiment(const Experiment& experiment, const RunnerOptions& options) {
  std::vector<NetworkProfile> networks;
  for (const std::string& name : experiment.networks) {
    const bool is_path = name.find_first_of("/.") != std::string::npos;
    auto network =
        read_network_profile(is_path ? (experiment.file.parent_path() / name).string() : name);
    if (!network) return network.error();
    if (std::ranges::find(networks, network->name, &NetworkProfile::name) != networks.end()) {
      return Error{Errc::usage, experiment.file.string() +
                                    ": networks: two profiles have the name '" + network->name +
                                    "'; results need distinct names"};
    }
    if (!experiment.congestion_control.empty()) {
      network->congestion_control = experiment.congestion_control;
    }
    networks.push_back(std::move(*network));
  }
  if (auto checked = check_round_trips(experiment, networks); !checked) return checked.error();
  if (auto checked = check_arms(experiment); !checked) return checked.error();
  catch_interrupts();
  Runner runner(experiment, options, std::move(networks));
  if (auto ran = runner.run(); !ran) return ran.error();
  return runner.tally();
}

}  // namespace edgedraft::netsim
