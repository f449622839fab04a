#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/devices/device_request.h"
#include "client/engine/drafter_selection.h"
#include "client/experiments/oracle_drafter.h"
#include "client/experiments/paced_drafter.h"
#include "client/generation/generation.h"
#include "client/privacy/privacy_guard.h"
#include "shared/net/tls.h"
#include "shared/program/pace_profile.h"
#include "shared/runtime/memory_meter.h"

namespace CLI {
class App;
}

namespace edgedraft {

// Settings by which `run`, `chat` and `serve` answer. Defaults are the program's.
struct AnswerConfig {
  std::string server = "127.0.0.1:7420";  // as it was written
  std::string host;
  std::string port;
  TlsClientOptions tls;
  std::string token;
  std::filesystem::path token_file;  // source of the token; empty: none
  bool pads = false;
  DrafterWishes drafter{.merges_if_faster = true};
  std::filesystem::path offline_bundle;  // writes without the server; empty: the drafter does
  // context_count is the bundle's.
  GenerationOptions generation{
      .tokens_max = 256, .deadline = std::chrono::seconds(3), .resync = wire::ResyncPolicy::check,
      .hold = std::nullopt};
  DraftingPace pace;  // step is the profile's, by the bundle's drafter
  PaceProfile pace_profile;
  PaceProfile::Place pace_place = PaceProfile::Place::device;
  std::filesystem::path cycles_file;  // empty: no record of cycles
  std::optional<std::uint32_t> offline_after;
  std::optional<OracleOptions> oracle;
  DeviceRequest device;
  std::uint32_t thread_count = 0;
  DType kv_type = DType::f32;
  std::uint64_t memory_limit = MemoryMeter::kUnlimited;
  std::uint32_t drafted_positions = 0;  // tokens to draft in; 0: the bundle's context
  bool raw = false;
  std::filesystem::path chat_template;
  PrivacyGuard::Options privacy;
  bool json = false;
  std::string log_level = "warn";
};

// Values of the options, each within its option's range.
struct AnswerOptions {
  AnswerConfig config;  // fields that one option each sets
  bool plain = false;
  std::optional<TreeShape> tree;
  std::optional<std::uint32_t> chain;
  std::optional<std::uint64_t> seed;
  std::filesystem::path pace_profile;
  std::filesystem::path oracle;
  std::optional<double> oracle_acceptance;
  std::optional<std::uint64_t> oracle_seed;
  std::vector<std::string> private_detect{"none"};
  std::filesystem::path private_names;
};

void declare_answer_options(CLI::App& app, AnswerOptions& options);
// Those of `run` and `chat`, which show their answers themselves.
void declare_shown_answer_options(CLI::App& app, AnswerOptions& options);
// Those of `run` alone, for measurements.
void declare_experiment_options(CLI::App& app, AnswerOptions& options);

// Whether one option at most reads standard input: what it took the next would miss. `reader` is
// what the command reads there itself, "for the prompt (-f -)".
// Errors    usage naming the option
Result<void> check_standard_input(const AnswerOptions& options, std::string reader = {});

// Checks that the options go together. Reads the token file, the list of names, the pace profile
// and the oracle's answer.
// Errors    usage naming the option and what it takes; io for the token file
Result<AnswerConfig> check_answer_options(const AnswerOptions& options);

}  // namespace edgedraft
