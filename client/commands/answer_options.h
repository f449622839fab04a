#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/devices/device_request.h"
#include "client/engine/bundle_file.h"
#include "client/engine/drafter_selection.h"
#include "client/generation/cycle_record.h"
#include "client/generation/generation.h"
#include "client/privacy/privacy_guard.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter.h"
#include "shared/net/tls.h"
#include "shared/protocol/target_link.h"
#include "shared/runtime/memory_meter.h"

namespace CLI {
class App;
}

namespace edgedraft {

// What the lab's programs (netsim/lab) put around the parts of an answer. Empty ones change
// nothing.
struct AnswerHooks {
  std::function<Result<void>(const BundleFile&)> on_bundle;  // the one chosen; an error ends it all
  std::function<std::unique_ptr<Drafter>(std::unique_ptr<Drafter>)> drafter;
  std::function<std::unique_ptr<TargetLink>(std::unique_ptr<TargetLink>)> link;
  std::function<void(const CycleRecord&)> on_cycle;  // on the engine's thread
};

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
  GenerationOptions generation{.tokens_max = 256,
                               .deadline = std::chrono::seconds(3),
                               .resync = wire::ResyncPolicy::check,
                               .hold = std::nullopt};
  AnswerHooks hooks;
  bool learns = true;  // remembers what it measures for later runs
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
  TreeShape tree;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> private_detect{"none"};
  std::filesystem::path private_names;
};

void declare_answer_options(CLI::App& app, AnswerOptions& options);
// Those of `run` and `chat`, which show their answers themselves.
void declare_shown_answer_options(CLI::App& app, AnswerOptions& options);

// Whether one option at most reads standard input: what it took the next would miss. `reader` is
// what the command reads there itself, "for the prompt (-f -)".
// Errors    usage naming the option
Result<void> check_standard_input(const AnswerOptions& options, std::string reader = {});

// Checks that the options go together. Reads the token file and the list of names.
// Errors    usage naming the option and what it takes; io for the token file
Result<AnswerConfig> check_answer_options(const AnswerOptions& options);

}  // namespace edgedraft
