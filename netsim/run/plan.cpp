#include "netsim/run/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include "netsim/link/options.h"
#include "shared/base/random.h"
#include "shared/base/sha256.h"

namespace edgedraft::netsim {
namespace {

// Pass time of an unpaced program with a demo-sized model, and the start of a client.
constexpr double kNativePassSeconds = 0.012;
constexpr double kNativeStepSeconds = 0.004;
constexpr double kStartSeconds = 0.25;
// Assumed tokens per cycle, and share of the longest answer that is written.
constexpr double kExpectedAcceptanceLength = 3;
constexpr double kExpectedLength = 0.6;

std::uint64_t seed_of(const std::string& text) {
  const Digest digest = sha256(as_byte_view(text));
  std::uint64_t seed = 0;
  for (std::size_t i = 0; i < 8; ++i) seed = seed << 8 | std::to_integer<std::uint64_t>(digest[i]);
  return seed;
}

void shuffle(std::vector<Trial>& block, Random& random) {
  for (std::size_t i = block.size(); i > 1; --i) std::swap(block[i - 1], block[random.below(i)]);
}

double seconds_or(Duration d, double otherwise) {
  return d > Duration::zero() ? seconds(d) : otherwise;
}

}  // namespace

std::size_t prompt_index(const Experiment& e, const Trial& trial, std::uint32_t client) {
  return (trial.prompt + client) % e.prompts.size();
}

std::vector<Stage> plan(const Experiment& e, const std::vector<NetworkProfile>& networks) {
  std::vector<Stage> stages;
  for (std::size_t network = 0; network < networks.size(); ++network) {
    for (std::size_t device = 0; device < e.devices.size(); ++device) {
      for (const std::uint64_t seed : e.seeds) {
        Stage stage{.network = network,
                    .device = device,
                    .seed = seed,
                    .id = networks[network].name + '|' + e.devices[device].name + '|' +
                          std::to_string(seed),
                    .trials = {}};
        Random random(seed_of(e.name + stage.id));
        const auto add_blocks = [&](std::uint32_t repetition, bool warm_up,
                                    std::size_t prompt_count) {
          // Arms warm up without a cut.
          const auto cuts =
              warm_up ? std::vector<std::optional<std::uint32_t>>{std::nullopt} : e.offline_after;
          for (const std::uint32_t clients : e.clients) {
            for (std::size_t prompt = 0; prompt < prompt_count; ++prompt) {
              std::vector<Trial> block;
              for (std::size_t arm = 0; arm < e.arms.size(); ++arm) {
                for (const auto& cut : cuts) {
                  if (cut && !can_be_cut(e.arms[arm])) continue;
                  Trial trial{.arm = arm,
                              .prompt = prompt,
                              .repetition = repetition,
                              .clients = clients,
                              .offline_after = cut,
                              .warm_up = warm_up,
                              .id = {}};
                  trial.id = stage.id + '|' + std::to_string(repetition) + '|' +
                             e.prompts[prompt].id + '|' + std::to_string(clients) + '|' +
                             e.arms[arm].name + '|' + (cut ? std::to_string(*cut) : "never");
                  block.push_back(std::move(trial));
                }
              }
              shuffle(block, random);
              stage.trials.insert(stage.trials.end(), block.begin(), block.end());
            }
          }
        };
        for (std::uint32_t i = 0; i < e.warm_up; ++i) add_blocks(0, true, 1);
        for (std::uint32_t i = 0; i < e.repetitions; ++i) add_blocks(i, false, e.prompts.size());
        stages.push_back(std::move(stage));
      }
    }
  }
  return stages;
}

std::uint64_t draft_seed(std::uint64_t seed, std::uint32_t repetition, const std::string& prompt_id,
                         std::uint32_t client) {
  return seed_of(std::to_string(seed) + '|' + std::to_string(repetition) + '|' +
                 std::to_string(client) + '|' + prompt_id);
}

double expected_seconds(const Experiment& e, const NetworkProfile& network,
                        const DeviceProfile& device, const Trial& trial) {
  const Arm& arm = e.arms[trial.arm];
  const double round_trip = seconds(mean_delay(network.up, 64) + mean_delay(network.down, 64));
  const double tokens = kExpectedLength * e.max_tokens;
  const double online =
      trial.offline_after ? std::min<double>(tokens, *trial.offline_after) : tokens;
  const std::uint32_t depth = arm.chain.value_or(6);
  const std::uint32_t rows = arm.chain ? *arm.chain + 1 : 63;
  const bool streams = arm.kind == Arm::Kind::plain || arm.kind == Arm::Kind::stop ||
                       arm.kind == Arm::Kind::server_speculation;
  const bool beside_target =
      arm.place == Arm::Place::server || arm.kind == Arm::Kind::server_speculation;
  const auto place = beside_target ? PaceProfile::Place::beside_target : PaceProfile::Place::device;
  const double step = seconds_or(device.pace.draft_step(arm.bundle, place), kNativeStepSeconds);
  // A stream pays for the link once.
  const double link = streams || arm.place == Arm::Place::server ? 0 : round_trip;
  const double prompt = seconds_or(device.pace.target_pass(64), 2 * kNativePassSeconds);
  double answer = 0;
  if (arm.kind == Arm::Kind::plain || arm.kind == Arm::Kind::stop) {
    answer = online * (seconds_or(device.pace.target_pass(1), kNativePassSeconds) + link);
  } else if (arm.kind == Arm::Kind::local) {
    answer = tokens * step;
  } else {
    answer = online / kExpectedAcceptanceLength *
                 (seconds_or(device.pace.target_pass(rows), 2 * kNativePassSeconds) + depth * step +
                  link) +
             (tokens - online) * step;
  }
  return kStartSeconds + 4 * round_trip + prompt + answer * std::sqrt(trial.clients);
}

double expected_overhead_seconds(const Experiment& e, const NetworkProfile& network) {
  const double round_trip = seconds(mean_delay(network.up, 64) + mean_delay(network.down, 64));
  return 3 + 2 * (e.pings * round_trip + 3);
}

std::uint32_t undisturbed_lanes(const Experiment& e, std::size_t device) {
  constexpr std::uint32_t kLanesACore = 2;
  const PaceProfile& pace = e.devices[device].pace;
  const bool one_client = e.clients == std::vector<std::uint32_t>{1};
  const bool idle = one_client && pace.paces_target() && pace.paces_drafter();
  if (e.timed && !idle) return 1;
  return kLanesACore * std::max(1u, std::thread::hardware_concurrency());
}

std::string duration_text(double in_seconds) {
  const auto whole = static_cast<long>(std::lround(std::max(in_seconds, 0.0)));
  char text[48];
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%ld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%ld min %ld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld h %ld min", whole / 3600, whole % 3600 / 60);
  }
  return text;
}

}  // namespace edgedraft::netsim
