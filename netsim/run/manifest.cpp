#include "netsim/run/manifest.h"

#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <set>
#include <span>
#include <thread>

#include "netsim/drivers/command.h"
#include "netsim/run/commit.h"
#include "netsim/run/installation.h"
#include "shared/base/bytes.h"
#include "shared/base/sha256.h"

namespace edgedraft::netsim {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string hex_of(const std::string& text) {
  return to_hex(sha256(as_byte_view(text)));
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string kernel_name() {
  utsname name{};
  uname(&name);
  return std::string(name.sysname) + ' ' + name.release + ' ' + name.machine;
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

// Output of a short command, without its last newlines; null if it fails.
ordered_json output_of(const std::vector<std::string>& argv) {
  auto output = run_command(argv, -1, Clock::now() + std::chrono::seconds(10));
  if (!output) return {};
  std::string text = std::move(*output);
  while (text.ends_with('\n')) text.pop_back();
  return text_or_null(text);
}

std::set<std::string> model_files(const Experiment& e) {
  std::set<std::string> files{e.target};
  for (const Arm& arm : e.arms) {
    if (!arm.bundle.empty()) files.insert(arm.bundle + ".gguf");
  }
  return files;
}

// Files named in arms' options, such as an index; words that name no file are skipped.
std::set<std::string> option_files(const Experiment& e) {
  std::set<std::string> files;
  for (const Arm& arm : e.arms) {
    for (const std::string& option : arm.options) {
      const std::string value = option.starts_with('-') && option.find('=') != std::string::npos
                                    ? option.substr(option.find('=') + 1)
                                    : option;
      std::error_code ignored;
      if (fs::is_regular_file(value, ignored)) files.insert(value);
    }
  }
  return files;
}

}  // namespace

std::string utc_now() {
  char text[32];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string file_hash(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  Sha256 hash;
  std::string block(1 << 20, '\0');
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
    hash.update(std::string_view(block).substr(0, static_cast<std::size_t>(in.gcount())));
  }
  return to_hex(hash.finish());
}

std::string experiment_hash(const Experiment& e, const std::vector<NetworkProfile>& networks,
                            const fs::path& program, const std::string& driver,
                            std::uint32_t parallel) {
  std::string all = e.text + '\n' + driver + (e.quick ? "\nquick\n" : "\n");
  all += std::to_string(parallel) + '\n';
  for (const NetworkProfile& network : networks) {
    all += network.text + '\n';
    for (const LinkOptions* direction : {&network.up, &network.down}) {
      if (direction->trace)
        all += to_hex(sha256(std::as_bytes(std::span(direction->trace->at_ms)))) + '\n';
    }
  }
  for (const DeviceProfile& device : e.devices) all += file_hash(device.file) + '\n';
  for (const std::string& file : model_files(e)) all += file_hash(e.models / file) + '\n';
  for (const std::string& file : option_files(e)) all += file_hash(file) + '\n';
  for (const Prompt& prompt : e.prompts) {
    all += prompt.text + '\n' + prompt.reference + '\n' + prompt.task + '\n';
  }
  for (const fs::path& file : {program, own_program()}) {
    all += file_hash(file) + '\n';
  }
  return hex_of(all);
}

ordered_json make_manifest(const Experiment& e, const std::vector<NetworkProfile>& networks,
                           const fs::path& program, const std::string& driver,
                           const TcpSettings& tcp, const std::vector<std::string>& command_line,
                           const std::string& hash, double expected_seconds) {
  ordered_json devices = ordered_json::array();
  bool paced = false;
  bool padded = false;
  for (const DeviceProfile& device : e.devices) {
    const bool this_paced = device.pace.paces_target() || device.pace.paces_drafter();
    paced = paced || this_paced;
    padded = padded || (e.padded_payloads && device.pace.pads_activations());
    devices.push_back({{"name", device.name},
                       {"paced", this_paced},
                       {"description", device.pace.description()},
                       {"sha256", file_hash(device.file)}});
  }
  ordered_json profiles = ordered_json::array();
  for (const NetworkProfile& network : networks) {
    const std::string& host = tcp.host_congestion_control;
    profiles.push_back({{"name", network.name},
                        {"source", network.source},
                        {"congestion_control", host.empty() ? network.congestion_control : host},
                        {"sha256", hex_of(network.text)}});
  }
  ordered_json models = ordered_json::object();
  for (const std::string& file : model_files(e)) models[file] = file_hash(e.models / file);
  ordered_json arms = ordered_json::array();
  bool synthetic = false;
  for (const Arm& arm : e.arms) {
    synthetic = synthetic || arm.acceptance.has_value();
    arms.push_back(
        {{"name", arm.name},
         {"kind", to_string(arm.kind)},
         {"beside_server", arm.place == Arm::Place::server},
         {"bundle", text_or_null(arm.bundle)},
         {"tree", text_or_null(arm.tree)},
         {"chain", arm.chain ? ordered_json(*arm.chain) : ordered_json()},
         {"hold", arm.hold},
         {"server_drafter", text_or_null(arm.server_drafter)},
         {"synthetic_acceptance", arm.acceptance ? ordered_json(*arm.acceptance) : ordered_json()},
         {"options", arm.options}});
  }
  ordered_json published = ordered_json::array();
  const auto maybe = [](const auto& value) {
    return value ? ordered_json(*value) : ordered_json();
  };
  for (const PublishedRow& row : e.published.rows) {
    published.push_back({{"arm", row.arm},
                         {"network", text_or_null(row.network)},
                         {"offline_after", maybe(row.offline_after)},
                         {"tokens_per_second", maybe(row.tokens_per_second)},
                         {"acceptance_length", maybe(row.acceptance_length)},
                         {"target_calls", maybe(row.target_calls)},
                         {"success_percent", maybe(row.success_percent)}});
  }
  return {{"name", e.name},
          {"title", e.title},
          {"description", e.description},
          {"quick", e.quick},
          {"paced", paced},
          {"padded_payloads", padded},
          {"timed", e.timed},
          {"synthetic", synthetic},
          {"started", utc_now()},
          {"finished", nullptr},
          {"expected_seconds", expected_seconds},
          {"experiment_sha256", hash},
          {"experiment_file", e.file.filename().string()},
          {"experiment", e.text},
          {"command_line", command_line},
          {"commit", kCommit},
          {"program", output_of({program.string(), "--version"})},
          {"driver", driver},
          {"tcp_slow_start_after_idle", tcp.slow_start_after_idle},
          {"kernel", kernel_name()},
          {"iproute2", output_of({"ip", "-V"})},
          {"cpu", cpu_name()},
          {"cores", std::thread::hardware_concurrency()},
          {"gpu",
           output_of({"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"})},
          {"seeds", e.seeds},
          {"repetitions", e.repetitions},
          {"prompts", e.prompts.size()},
          {"max_tokens", e.max_tokens},
          {"temperature", e.temperature},
          {"baseline", text_or_null(e.baseline)},
          {"models", models},
          {"networks", profiles},
          {"devices", devices},
          {"arms", arms},
          {"published",
           {{"source", text_or_null(e.published.source)},
            {"plain_tokens_per_second", e.published.plain_tokens_per_second},
            {"plain_target_calls", e.published.plain_target_calls},
            {"rows", published}}}};
}

}  // namespace edgedraft::netsim
