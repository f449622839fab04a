#include "netsim/run/experiment.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "netsim/profile.h"
#include "netsim/run/installation.h"
#include "shared/program/toml_reader.h"
#include "shared/protocol/limits.h"

namespace edgedraft::netsim {
namespace {

namespace fs = std::filesystem;

constexpr int kCountMax = 1'000'000;
// Limit on clients of a trial: they connect at about the same time, and a server closes further
// unauthenticated connections from one address.
constexpr int kClientsMax = 256;
// A calibration holds about a hundred simulations of all pings in memory.
constexpr int kPingsMax = 10'000;
constexpr const char* kHint = "see docs/experiments.md";

// By Arm::Kind.
constexpr std::initializer_list<const char*> kArmKinds{"plain", "split", "server-speculation",
                                                       "local", "stop"};

// "8,6,62"
std::optional<RunModel::Shape> parse_shape(const std::string& text) {
  RunModel::Shape shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint32_t* number : {&shape.breadth, &shape.depth, &shape.nodes}) {
    if (number != &shape.breadth && (at == end || *at++ != ',')) return std::nullopt;
    const auto parsed = std::from_chars(at, end, *number);
    if (parsed.ec != std::errc() || *number == 0) return std::nullopt;
    at = parsed.ptr;
  }
  return at == end ? std::optional(shape) : std::nullopt;
}

Arm read_arm(TomlReader& from) {
  Arm arm;
  from.read("name", arm.name);
  if (arm.name.empty() || arm.name.find_first_of("|/\\\"<>&") != std::string::npos) {
    from.wrong("name", "give a name without any of | / \\ \" < > &");
  }
  const auto kind = std::ranges::find(kArmKinds, from.one_of("kind", kArmKinds));
  if (kind != kArmKinds.end()) arm.kind = static_cast<Arm::Kind>(kind - kArmKinds.begin());
  if (from.has("place") && from.one_of("place", {"device", "server"}) == "server") {
    arm.place = Arm::Place::server;
  }
  from.read("bundle", arm.bundle);
  from.read("tree", arm.tree);
  if (!arm.tree.empty()) {
    arm.shape = parse_shape(arm.tree);
    if (!arm.shape) from.wrong("tree", "give breadth, depth and nodes, such as \"8,6,62\"");
  }
  if (from.read("chain", arm.chain, 1, kCountMax) && !arm.tree.empty()) {
    from.fail("tree and chain exclude each other");
  }
  if (from.has("hold")) arm.hold = from.one_of("hold", {"auto", "none", "economy", "lockstep"});
  from.read("acceptance", arm.acceptance, 0, 1);
  from.read("deadline_ms", arm.deadline_ms, 1, kCountMax);
  from.read("server_drafter", arm.server_drafter);
  from.read("options", arm.options);
  const bool drafts = arm.kind == Arm::Kind::split || arm.kind == Arm::Kind::local;
  const bool server_drafts = arm.kind == Arm::Kind::server_speculation;
  if ((drafts && arm.bundle.empty()) ||
      (server_drafts && arm.bundle.empty() == arm.server_drafter.empty())) {
    from.fail("arm '" + arm.name + "': give " +
              (server_drafts ? "either bundle or server_drafter" : "bundle"));
  }
  if (!arm.server_drafter.empty() && !server_drafts && arm.kind != Arm::Kind::split) {
    from.fail("arm '" + arm.name + "': server_drafter needs kind split or server-speculation");
  }
  if (from.has("hold") && arm.kind != Arm::Kind::split) {
    from.fail("arm '" + arm.name + "': hold is only for a split arm");
  }
  if (!drafts && (!arm.tree.empty() || arm.chain || arm.acceptance)) {
    from.fail("arm '" + arm.name + "' does not draft: remove tree, chain and acceptance");
  }
  return arm;
}

// Rejects options that testbed.cpp sets itself, each with its deciding key; empty: always set. The
// client would refuse a second value, or it would contradict the arm's description in the results.
void refuse_set_options(TomlReader& from, const Arm& arm, double temperature) {
  std::map<std::string, std::string> keys{{"--bundle", "bundle"},
                                          {"--cycles", ""},
                                          {"--deadline-ms", "deadline_ms"},
                                          {"--file", "prompts"},
                                          {"--json", ""},
                                          {"--max-tokens", "max_tokens"},
                                          {"--offline-after", "offline_after"},
                                          {"--oracle", "acceptance"},
                                          {"--oracle-acceptance", "acceptance"},
                                          {"--oracle-seed", "seeds"},
                                          {"--pace-beside-target", "place"},
                                          {"--pace-profile", "devices"},
                                          {"--pin", ""},
                                          {"--plain", "kind"},
                                          {"--prompt", "prompts"},
                                          {"--seed", "seeds"},
                                          {"--server", ""},
                                          {"--token-file", ""},
                                          {"-f", "prompts"},
                                          {"-p", "prompts"}};
  if (temperature > 0) keys["--temperature"] = "temperature";
  if (arm.kind == Arm::Kind::split) keys["--hold"] = "hold";
  if (!arm.tree.empty() || arm.chain) keys["--tree"] = "tree or chain";
  for (const std::string& option : arm.options) {
    const bool is_short = option.size() > 1 && option[0] == '-' && option[1] != '-';
    const auto set = keys.find(is_short ? option.substr(0, 2) : option.substr(0, option.find('=')));
    if (set == keys.end()) continue;
    from.fail("options: arm '" + arm.name + "': " + set->first + " is set by the experiment; " +
              (set->second.empty() ? "remove it" : "use the key " + set->second));
  }
}

// Answers are identified by names and numbers only, so of two equal entries one would never run.
template <class Number>
void refuse_repeats(TomlReader& from, const std::string& key, std::vector<Number> values) {
  std::ranges::sort(values);
  const auto twice = std::ranges::adjacent_find(values);
  if (twice != values.end()) from.wrong(key, std::to_string(*twice) + " is listed twice");
}

// The first prompts of these tasks, about equally many per task; the file lists them task by task.
std::vector<Prompt> choose_prompts(std::vector<Prompt> all, const std::vector<std::string>& tasks,
                                   std::size_t count_max) {
  std::map<std::string, std::vector<Prompt>> by_task;
  std::vector<std::string> order;
  for (Prompt& prompt : all) {
    if (!tasks.empty() && std::ranges::find(tasks, prompt.task) == tasks.end()) continue;
    auto& group = by_task[prompt.task];
    if (group.empty()) order.push_back(prompt.task);
    group.push_back(std::move(prompt));
  }
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; prompts.size() < count_max; ++i) {
    const std::size_t before = prompts.size();
    for (const std::string& task : order) {
      if (i < by_task[task].size() && prompts.size() < count_max) {
        prompts.push_back(by_task[task][i]);
      }
    }
    if (prompts.size() == before) break;
  }
  return prompts;
}

void read_published(TomlReader& from, Published& published) {
  from.read("source", published.source);
  from.read("plain_tokens_per_second", published.plain_tokens_per_second, 0, 1e9);
  from.read("plain_target_calls", published.plain_target_calls, 0, 1e9);
  from.tables("row", TomlReader::kListMax, [&](TomlReader& row) {
    PublishedRow& out = published.rows.emplace_back();
    row.read("arm", out.arm);
    row.read("network", out.network);
    row.read("offline_after", out.offline_after, 1, kCountMax);
    row.read("tokens_per_second", out.tokens_per_second, 0, 1e9);
    row.read("acceptance_length", out.acceptance_length, 0, 1e9);
    row.read("target_calls", out.target_calls, 0, 1e9);
    row.read("success_percent", out.success_percent, 0, 1e9);
  });
}

// Path of a device profile: a path as given, else NAME.toml in one of the folders.
Result<DeviceProfile> find_device(const std::string& name, const std::vector<fs::path>& folders) {
  std::vector<fs::path> candidates;
  if (name.find_first_of("/.") != std::string::npos) {
    candidates.push_back(folders.front() / name);
  } else {
    for (const fs::path& folder : folders) candidates.push_back(folder / (name + ".toml"));
  }
  for (const fs::path& file : candidates) {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) continue;
    auto pace = PaceProfile::read(file);
    if (!pace) return pace.error();
    return DeviceProfile{.name = pace->name(), .file = fs::absolute(file), .pace = *pace};
  }
  std::string looked;
  for (const fs::path& file : candidates) looked += "\n  " + file.string();
  return Error{Errc::usage, "device profile '" + name + "' not found; looked for" + looked};
}

}  // namespace

bool writes_offline(const Arm& arm) {
  return arm.kind == Arm::Kind::split || arm.kind == Arm::Kind::local;
}

bool can_be_cut(const Arm& arm) {
  return arm.kind == Arm::Kind::split || arm.kind == Arm::Kind::stop;
}

std::string_view to_string(Arm::Kind kind) {
  return kArmKinds.begin()[static_cast<std::size_t>(kind)];
}

Result<std::vector<Prompt>> read_prompts(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return Error{Errc::io, file.string() + ": cannot be read"};
  std::vector<Prompt> prompts;
  std::map<std::string, std::size_t> counts;  // by task
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_file,
                   file.string() + ", line " + std::to_string(number) + ": " + what};
    };
    if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) {
      return wrong("expected a JSON object with a string \"prompt\"");
    }
    Prompt prompt{.id = {}, .task = "text", .text = json["prompt"], .reference = {}};
    for (const auto& [key, field] :
         {std::pair("task", &prompt.task), std::pair("reference", &prompt.reference)}) {
      const auto found = json.find(key);
      if (found == json.end() || found->is_null()) continue;
      if (!found->is_string()) return wrong(std::string("\"") + key + "\" is not a string");
      *field = found->get<std::string>();
    }
    prompt.id = prompt.task + "-" + std::to_string(++counts[prompt.task]);
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return Error{Errc::bad_file, file.string() + ": contains no prompts"};
  return prompts;
}

Result<Experiment> read_experiment(const fs::path& file, const ExperimentSources& sources) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    return Error{Errc::usage, file.string() + ": is a folder; give an experiment's file"};
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    return Error{Errc::io, file.string() + ": no such experiment; shipped experiments are in " +
                               (share_folder() / "experiments").string()};
  }
  Experiment e;
  e.file = fs::absolute(file);
  e.text.assign(std::istreambuf_iterator<char>(in), {});
  e.quick = sources.quick;
  const auto toml = parse_toml(e.text, file);
  if (!toml) return toml.error();
  const fs::path folder = e.file.parent_path();
  TomlFile source{.name = file.string()};
  TomlReader r(*toml, source);
  e.name = file.stem().string();
  r.read("name", e.name);
  e.title = e.name;
  r.read("title", e.title);
  r.read("description", e.description);
  std::string models = models_folder().string();
  r.read("models", models);
  e.models = sources.models.empty() ? folder / models : fs::absolute(sources.models);
  e.target = "target.gguf";
  r.read("target", e.target);
  r.read("networks", e.networks);
  if (e.networks.empty()) r.wrong("networks", "list at least one, e.g. [\"paper-5g\"]");
  std::vector<std::string> devices{"native"};
  r.read("devices", devices);
  std::string prompts_file = "heldout.jsonl";
  r.read("prompts", prompts_file);
  std::vector<std::string> tasks;
  r.read("tasks", tasks);
  std::uint32_t prompt_count = kCountMax;
  r.read("prompt_count", prompt_count, 1, kCountMax);
  r.read("repetitions", e.repetitions, 1, kCountMax);
  r.read("max_tokens", e.max_tokens, 1, kCountMax);
  r.read("timed", e.timed);
  r.read("warm_up", e.warm_up, 0, kCountMax);
  r.read("temperature", e.temperature, 0, 100);
  r.read("deadline_ms", e.deadline_ms, 1, kCountMax);
  r.read("congestion_control", e.congestion_control);
  if (!e.congestion_control.empty() && !is_congestion_control(e.congestion_control)) {
    r.wrong("congestion_control", "give the kernel's name of an algorithm, such as \"cubic\"");
  }
  r.read("padded_payloads", e.padded_payloads);
  r.read("baseline", e.baseline);
  e.seeds = {1};
  r.read("seeds", e.seeds, 0, kCountMax);
  r.read("clients", e.clients, 1, kClientsMax);
  std::vector<std::uint32_t> cuts;
  bool lasting = !r.has("offline_after");
  if (const toml::array* const list = r.list("offline_after")) {
    for (const toml::node& element : *list) {
      const auto number = element.value_exact<std::int64_t>().value_or(0);
      if (element.value_exact<std::string>() == "never") {
        lasting = true;
      } else if (number >= 1 && number <= kCountMax) {
        cuts.push_back(static_cast<std::uint32_t>(number));
      } else {
        r.wrong("offline_after", "give numbers of tokens, or \"never\"");
      }
    }
  }
  r.table("calibration", kHint, [&](TomlReader& c) {
    c.read("pings", e.pings, 5, kPingsMax);
    c.read("rtt_tolerance", e.rtt_tolerance, 0, 10);
    c.read("rate_tolerance", e.rate_tolerance, 0, 10);
  });
  r.table("quick", kHint, [&](TomlReader& quick) {
    const auto read = [&](const char* key, auto& value, int least, int most = kCountMax) {
      auto unused = value;
      quick.read(key, e.quick ? value : unused, least, most);
    };
    read("prompt_count", prompt_count, 1);
    read("repetitions", e.repetitions, 1);
    read("max_tokens", e.max_tokens, 1);
    read("warm_up", e.warm_up, 0);
    read("clients", e.clients, 1, kClientsMax);
    read("offline_after", cuts, 1);
  });
  r.tables("arm", TomlReader::kListMax, [&](TomlReader& arm) {
    e.arms.push_back(read_arm(arm));
    refuse_set_options(arm, e.arms.back(), e.temperature);
  });
  r.table("published", kHint, [&](TomlReader& p) { read_published(p, e.published); });
  r.refuse_unknown_keys();

  e.offline_after.clear();
  for (const std::uint32_t cut : cuts) e.offline_after.emplace_back(cut);
  if (lasting) e.offline_after.emplace_back(std::nullopt);
  refuse_repeats(r, "seeds", e.seeds);
  refuse_repeats(r, "clients", e.clients);
  refuse_repeats(r, "offline_after", cuts);

  std::set<std::string> names;
  for (const Arm& arm : e.arms) {
    if (!names.insert(arm.name).second) r.fail("two arms have the name '" + arm.name + "'");
    if (!lasting && !can_be_cut(arm)) {
      r.fail("arm '" + arm.name + "' never runs: add \"never\" to offline_after");
    }
  }
  if (e.arms.empty()) r.fail("no [[arm]]; give at least one");
  if (!e.baseline.empty() && !names.contains(e.baseline)) {
    r.wrong("baseline", "no arm has the name '" + e.baseline + "'");
  }
  if (source.error) return *source.error;

  const fs::path prompts_path =
      prompts_file.find('/') == std::string::npos ? e.models / prompts_file : folder / prompts_file;
  auto prompts = read_prompts(prompts_path);
  if (!prompts) return Error{Errc::usage, prompts.error().message};
  e.prompts = choose_prompts(*std::move(prompts), tasks, prompt_count);
  if (e.prompts.empty()) {
    return Error{Errc::usage, prompts_path.string() + ": no prompts of these tasks"};
  }
  const std::vector<fs::path> device_folders{
      sources.devices.empty() ? folder : fs::absolute(sources.devices), folder / "../devices",
      share_folder() / "devices"};
  for (const std::string& name : devices) {
    auto device = find_device(name, device_folders);
    if (!device) return device.error();
    if (std::ranges::find(e.devices, device->name, &DeviceProfile::name) != e.devices.end()) {
      return Error{Errc::usage, file.string() + ": devices: two profiles have the name '" +
                                    device->name + "'; results need distinct names"};
    }
    e.devices.push_back(std::move(*device));
  }
  return e;
}

}  // namespace edgedraft::netsim
