#pragma once

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

// What `run`, `chat` and `serve` are told, as it was written, each value within what its option
// takes. Defaults are the program's.
struct AnswerOptions {
  std::string server = "127.0.0.1:7420";
  std::string pin;
  std::filesystem::path ca;
  std::filesystem::path token_file;
  std::filesystem::path tls_cert;
  std::filesystem::path tls_key;
  std::vector<std::filesystem::path> bundles;
  std::string drafter;
  std::vector<std::string> drafter_merge{"auto"};
  std::vector<std::filesystem::path> indexes;
  std::filesystem::path offline_bundle;
  bool plain = false;
  bool pad = false;
  std::optional<std::string> tree;
  std::optional<std::uint32_t> chain;
  std::string control = "auto";
  std::string overlap = "auto";
  std::uint32_t max_tokens = 256;
  double temperature = 0.0;
  std::uint32_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  std::optional<std::uint64_t> seed;
  std::uint32_t deadline_ms = 3000;
  std::string resync = "check";
  std::uint32_t resync_wait_ms = 0;
  std::uint32_t pace_ms = 0;
  std::filesystem::path pace_profile;
  bool pace_beside_target = false;
  std::filesystem::path cycles;
  std::optional<std::uint32_t> offline_after;
  std::filesystem::path oracle;
  std::optional<double> oracle_acceptance;
  std::optional<std::uint64_t> oracle_seed;
  std::string device = "auto";
  std::uint32_t threads = 0;
  std::string kv_type = "f32";
  std::uint64_t memory = MemoryMeter::kUnlimited;
  std::uint32_t ctx = 0;
  bool raw = false;
  std::filesystem::path chat_template;
  std::string private_mode = "mask";
  std::vector<std::string> private_detect{"none"};
  std::filesystem::path private_names;
  std::string private_found = "mask";
  std::string private_types = "on";
  bool json = false;
  std::string log_level = "warn";
};

void declare_answer_options(CLI::App& app, AnswerOptions& options);
// Those of `run` and `chat`, which show their answers themselves.
void declare_shown_answer_options(CLI::App& app, AnswerOptions& options);
// Those of `run` alone, for measurements.
void declare_experiment_options(CLI::App& app, AnswerOptions& options);

// The same as the program uses it, and checked whether the options go together.
struct AnswerConfig {
  std::string server;  // as it was written
  std::string host;
  std::string port;
  TlsClientOptions tls;
  std::string token;
  std::filesystem::path token_file;  // where it is from; empty: there is none
  bool pads;
  DrafterWishes drafter;
  std::filesystem::path offline_bundle;  // who writes without the server; empty: the drafter
  GenerationOptions generation;          // context_count is the bundle's to say
  DraftingPace pace;                     // step is the profile's to say, by the bundle's drafter
  PaceProfile pace_profile;
  PaceProfile::Place pace_place;
  std::filesystem::path cycles_file;  // empty: no record of cycles
  std::optional<std::uint32_t> offline_after;
  std::optional<OracleOptions> oracle;
  DeviceRequest device;
  std::uint32_t thread_count;
  DType kv_type = DType::f32;
  std::uint64_t memory_limit;
  std::uint32_t drafted_positions;  // tokens of a conversation to draft in; 0: the bundle's context
  bool raw;
  std::filesystem::path chat_template;
  PrivacyGuard::Options privacy;
  bool json;
  std::string log_level;
};

// Whether one option at most reads standard input: what it took the next would miss. `reader` is
// what the command reads there itself, "for the prompt (-f -)".
// Errors    usage naming the option
Result<void> check_standard_input(const AnswerOptions& options, std::string reader = {});

// Reads the token file, the list of names, the pace profile and the oracle's answer.
// Errors    usage naming the option and what it takes; io for the token file
Result<AnswerConfig> check_answer_options(const AnswerOptions& options);

}  // namespace edgedraft
