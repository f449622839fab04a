#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/devices/device_choice.h"
#include "client/engine/bundle_file.h"
#include "client/engine/drafter_selection.h"
#include "client/generation/generation.h"
#include "client/generation/telemetry/cycle_record.h"
#include "client/privacy/privacy_guard.h"
#include "client/trust/trust_options.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter.h"
#include "shared/protocol/target_link.h"
#include "shared/runtime/memory_meter.h"

namespace CLI {
class App;
}

namespace edgedraft::client {

// Hooks of the lab's programs (netsim/lab) around the parts of an answer. Empty ones change
// nothing.
struct LabHooks {
  std::function<Result<void>(const BundleFile&)> on_bundle;  // the chosen bundle; an error aborts
  std::function<std::unique_ptr<Drafter>(std::unique_ptr<Drafter>)> drafter;
  std::function<std::unique_ptr<TargetLink>(std::unique_ptr<TargetLink>)> link;
  std::function<void(const CycleRecord&)> on_cycle;  // on the engine's thread
};

// Settings of answers by `run`, `chat` and `serve`. Defaults are the program's.
struct ClientSettings {
  std::string server = "127.0.0.1:7420";  // as given
  std::string host;
  std::string port;
  TrustOptions trust;
  std::string token;
  bool pads = false;
  DrafterWishes drafter{.merges_if_faster = true};
  std::filesystem::path offline_bundle;  // bundle that writes offline; empty: the drafter's
  // context_count is taken from the bundle.
  GenerationOptions generation{.tokens_max = 256,
                               .deadline = std::chrono::seconds(3),
                               .resync = wire::ResyncPolicy::check,
                               .hold = std::nullopt};
  LabHooks hooks;
  bool learns = true;  // keeps measurements for later runs
  DeviceRequest device;
  std::uint32_t thread_count = 0;
  DType kv_type = DType::f32;
  std::uint64_t memory_limit = MemoryMeter::kUnlimited;
  std::uint32_t drafted_positions = 0;  // context length for drafting; 0: the bundle's
  bool raw = false;
  std::filesystem::path chat_template;
  PrivacyGuard::Options privacy;
  bool json = false;
  std::string log_level = "warn";
};

// Values of the options, each within its option's range.
struct OptionValues {
  ClientSettings config;  // fields that a single option sets
  bool plain = false;
  TreeShape tree;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> private_detect{"none"};
  std::pair<PrivateMode, bool> private_mode{PrivateMode::mask, true};  // and whether types show
  std::filesystem::path private_names;
};

// Declares the options that name the server, the trust in it, and the sign-in.
void declare_server_options(CLI::App& app, ClientSettings& config);
// Sets host, port and token of the settings.
// Errors    usage naming the option; io for the token file
Result<void> check_server_options(ClientSettings& config);

void declare_answer_options(CLI::App& app, OptionValues& options);
// Declares options of `run` and `chat`, which print their answers.
void declare_shown_answer_options(CLI::App& app, OptionValues& options);

// Checks that at most one option reads standard input; a second would find it empty. `reader` names
// the command's own use of it: "for the prompt (-f -)".
// Errors    usage naming the option
Result<void> check_standard_input(const OptionValues& options, std::string reader = {});

// Checks combinations of options. Reads the token file and the list of names.
// Errors    usage naming the option and its valid values; io for the token file
Result<ClientSettings> check_answer_options(const OptionValues& options);

}  // namespace edgedraft::client
