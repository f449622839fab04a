#include "netsim/run/experiment.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "netsim/profile.h"
#include "netsim/run/installation.h"
#include "shared/program/toml_text.h"
#include "shared/protocol/limits.h"

namespace edgedraft::netsim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCountMax = 1'000'000;
// The clients of a trial connect at about the same time, and a server closes connections of one
// address that have not signed in beyond so many.
constexpr std::int64_t kClientsMax = 256;
// A calibration keeps some hundred simulations of all of them.
constexpr std::int64_t kPingsMax = 10'000;

// Reads a table key by key; remembers the first thing wrong, and which keys were asked for, so that
// a slip of the pen is found.
class Reader {
 public:
  Reader(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  void fail(const std::string& what) {
    if (error_.empty()) error_ = where_ + what;
  }
  const std::string& error() const { return error_; }

  const toml::node* node(const std::string& key) {
    known_.insert(key);
    return table_.get(key);
  }
  std::string text(const std::string& key, std::string otherwise) {
    const toml::node* found = node(key);
    if (!found) return otherwise;
    if (const auto* value = found->as_string()) return value->get();
    fail(key + ": give a text in quotes");
    return otherwise;
  }
  std::int64_t integer(const std::string& key, std::int64_t otherwise, std::int64_t least,
                       std::int64_t most = kCountMax) {
    const toml::node* found = node(key);
    return found ? number(key, *found, least, most) : otherwise;
  }
  double real(const std::string& key, double otherwise, double least, double most) {
    const toml::node* found = node(key);
    if (!found) return otherwise;
    const double value = found->is_number() ? found->value_or(least) : least - 1;
    if (value >= least && value <= most) return value;
    std::ostringstream what;
    what << key << ": give a number from " << least << " to " << most;
    fail(what.str());
    return otherwise;
  }
  std::optional<double> optional_real(const std::string& key) {
    if (!table_.contains(key)) return known_.insert(key), std::nullopt;
    return real(key, 0, 0, 1e9);
  }
  bool flag(const std::string& key, bool otherwise) {
    const toml::node* found = node(key);
    if (found && !found->is_boolean()) fail(key + ": give true or false");
    return found ? found->value_or(otherwise) : otherwise;
  }
  std::vector<std::string> texts(const std::string& key) {
    std::vector<std::string> values;
    for_each(key, [&](const toml::node& element) {
      if (const auto* value = element.as_string()) {
        values.push_back(value->get());
      } else {
        fail(key + ": give a list of texts");
      }
    });
    return values;
  }
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t least,
                                     std::int64_t most = kCountMax) {
    std::vector<std::int64_t> values;
    for_each(key, [&](const toml::node& element) {
      values.push_back(number(key, element, least, most));
    });
    return values;
  }
  template <class Use>
  void for_each(const std::string& key, Use use) {
    const toml::node* found = node(key);
    if (!found) return;
    const toml::array* list = found->as_array();
    if (!list || list->empty()) return fail(key + ": give a list with something in it");
    for (const toml::node& element : *list) use(element);
  }
  template <class Use>
  void for_each_table(const std::string& key, Use use) {
    for_each(key, [&](const toml::node& element) {
      const toml::table* table = element.as_table();
      if (!table) return fail(key + ": write [[" + key + "]] above each of them");
      Reader reader(*table, where_ + '[' + key + "] in line " +
                                std::to_string(table->source().begin.line) + ": ");
      use(reader);
      take(reader);
    });
  }
  template <class Use>
  void with_table(const std::string& key, Use use) {
    const toml::node* found = node(key);
    if (!found) return;
    const toml::table* table = found->as_table();
    if (!table) return fail(key + ": write [" + key + "] and its keys below");
    Reader reader(*table, where_ + '[' + key + "] ");
    use(reader);
    take(reader);
  }
  void finish() {
    for (const auto& [key, value] : table_) {
      if (!known_.contains(std::string(key.str()))) {
        std::string names;
        for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
        return fail("there is no key '" + std::string(key.str()) + "'; there are " + names);
      }
    }
  }

 private:
  void take(Reader& inner) {
    inner.finish();
    if (error_.empty()) error_ = inner.error();
  }
  std::int64_t number(const std::string& key, const toml::node& from, std::int64_t least,
                      std::int64_t most) {
    const auto* value = from.as_integer();
    if (value && value->get() >= least && value->get() <= most) return value->get();
    fail(key + ": give a whole number from " + std::to_string(least) + " to " +
         std::to_string(most));
    return least;
  }

  const toml::table& table_;
  std::string where_;
  std::string error_;
  std::set<std::string> known_;
};

Arm::Kind arm_kind(Reader& from) {
  const std::string name = from.text("kind", "");
  for (const Arm::Kind kind : {Arm::Kind::plain, Arm::Kind::split, Arm::Kind::server_speculation,
                               Arm::Kind::local, Arm::Kind::stop}) {
    if (name == to_string(kind)) return kind;
  }
  from.fail("kind: give plain, split, server-speculation, local or stop");
  return {};
}

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

Arm read_arm(Reader& from) {
  Arm arm;
  arm.name = from.text("name", "");
  if (arm.name.empty() || arm.name.find_first_of("|/\\\"<>&") != std::string::npos) {
    from.fail("name: each arm needs one, without any of | / \\ \" < > &");
  }
  arm.kind = arm_kind(from);
  const std::string place = from.text("place", "device");
  if (place != "device" && place != "server") from.fail("place: give device or server");
  arm.place = place == "server" ? Arm::Place::server : Arm::Place::device;
  arm.bundle = from.text("bundle", "");
  arm.tree = from.text("tree", "");
  if (!arm.tree.empty()) {
    arm.shape = parse_shape(arm.tree);
    if (!arm.shape) from.fail("tree: give breadth, depth and nodes, like \"8,6,62\"");
  }
  if (const auto chain = from.integer("chain", 0, 1); chain > 0) {
    arm.chain = static_cast<std::uint32_t>(chain);
    if (!arm.tree.empty()) from.fail("tree and chain exclude each other");
  }
  arm.overlap = from.text("overlap", "");
  const std::set<std::string> overlaps{"", "on", "economy", "auto"};
  if (!overlaps.contains(arm.overlap)) from.fail("overlap: give on, economy or auto");
  arm.control = from.flag("control", false);
  arm.acceptance = from.optional_real("acceptance");
  if (arm.acceptance && *arm.acceptance > 1) from.fail("acceptance: give a probability");
  if (const auto deadline = from.integer("deadline_ms", 0, 1); deadline > 0) {
    arm.deadline_ms = static_cast<std::uint32_t>(deadline);
  }
  arm.server_drafter = from.text("server_drafter", "");
  arm.options = from.texts("options");
  const bool drafts = arm.kind == Arm::Kind::split || arm.kind == Arm::Kind::local;
  const bool server_drafts = arm.kind == Arm::Kind::server_speculation;
  if ((drafts && arm.bundle.empty()) ||
      (server_drafts && arm.bundle.empty() == arm.server_drafter.empty())) {
    from.fail("arm '" + arm.name + "': which bundle" +
              (server_drafts ? ", or which server_drafter," : "") + " drafts?");
  }
  if (!arm.server_drafter.empty() && !server_drafts && arm.kind != Arm::Kind::split) {
    from.fail("arm '" + arm.name + "': no server drafts for this kind of arm");
  }
  if (!arm.overlap.empty() && arm.kind != Arm::Kind::split) {
    from.fail("arm '" + arm.name + "': overlap is a way of working of split arms");
  }
  if (arm.control && arm.kind != Arm::Kind::split) {
    from.fail("arm '" + arm.name + "': control chooses between drafts and streams of a split arm");
  }
  if (!drafts && (!arm.tree.empty() || arm.chain || arm.acceptance)) {
    from.fail("arm '" + arm.name + "' does not draft: it takes no tree, chain or acceptance");
  }
  return arm;
}

// Options that testbed.cpp sets itself, each with the key that decides it; empty: always set.
// A second value would be refused by the client, or overrule what results say of the arm.
void refuse_set_options(Reader& from, const Arm& arm, double temperature) {
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
  if (arm.kind == Arm::Kind::split) keys["--overlap"] = "overlap";
  if (arm.kind == Arm::Kind::split && arm.overlap.empty() && !arm.control) {
    keys["--control"] = "control";
  }
  if (!arm.tree.empty() || arm.chain) keys["--tree"] = keys["--chain"] = "tree or chain";
  for (const std::string& option : arm.options) {
    const bool is_short = option.size() > 1 && option[0] == '-' && option[1] != '-';
    const auto set = keys.find(is_short ? option.substr(0, 2) : option.substr(0, option.find('=')));
    if (set == keys.end()) continue;
    from.fail("options: arm '" + arm.name + "': " + set->first + " is set by the experiment; " +
              (set->second.empty() ? "leave it out" : "use the key " + set->second));
  }
}

// An answer is known by names and numbers alone, so of two that share them one would never be run.
void refuse_repeats(Reader& from, const std::string& key, std::vector<std::int64_t> values) {
  std::ranges::sort(values);
  const auto twice = std::ranges::adjacent_find(values);
  if (twice != values.end()) from.fail(key + ": " + std::to_string(*twice) + " is there twice");
}

// The first so many prompts of these tasks, about as many from each: they stand one task behind the
// other.
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

Published read_published(Reader& from) {
  Published published;
  published.source = from.text("source", "");
  published.plain_tokens_per_second = from.real("plain_tokens_per_second", 0, 0, 1e9);
  published.plain_target_calls = from.real("plain_target_calls", 0, 0, 1e9);
  from.for_each_table("row", [&](Reader& row) {
    PublishedRow out{.arm = row.text("arm", ""),
                     .network = row.text("network", ""),
                     .offline_after = {},
                     .tokens_per_second = row.optional_real("tokens_per_second"),
                     .acceptance_length = row.optional_real("acceptance_length"),
                     .target_calls = row.optional_real("target_calls"),
                     .success_percent = row.optional_real("success_percent")};
    if (const auto b = row.integer("offline_after", 0, 1); b > 0) {
      out.offline_after = static_cast<std::uint32_t>(b);
    }
    published.rows.push_back(std::move(out));
  });
  return published;
}

// A device profile's file: what looks like a path, else NAME.toml in one of the folders.
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
  return Error{Errc::usage, "there is no device profile '" + name + "'; looked for" + looked};
}

}  // namespace

bool writes_offline(const Arm& arm) {
  return arm.kind == Arm::Kind::split || arm.kind == Arm::Kind::local;
}

bool can_be_cut(const Arm& arm) {
  return arm.kind == Arm::Kind::split || arm.kind == Arm::Kind::stop;
}

std::string_view to_string(Arm::Kind kind) {
  switch (kind) {
    case Arm::Kind::plain:
      return "plain";
    case Arm::Kind::split:
      return "split";
    case Arm::Kind::server_speculation:
      return "server-speculation";
    case Arm::Kind::local:
      return "local";
    case Arm::Kind::stop:
      return "stop";
  }
  return "unknown";
}

Result<Experiment> read_experiment(const fs::path& file, const ExperimentSources& sources) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    return Error{Errc::usage, file.string() + ": it is a folder: give the file of an experiment"};
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    return Error{Errc::io, file.string() + ": there is no such experiment; shipped ones are in " +
                               (share_folder() / "experiments").string()};
  }
  Experiment e;
  e.file = fs::absolute(file);
  e.text.assign(std::istreambuf_iterator<char>(in), {});
  e.quick = sources.quick;
  toml::table root;
  try {
    root = parse_toml(e.text, file);
  } catch (const toml::parse_error& wrong) {
    std::ostringstream at;
    at << file.string() << ", line " << wrong.source().begin.line << ": " << wrong.description();
    return Error{Errc::usage, at.str()};
  }
  const fs::path folder = e.file.parent_path();
  Reader r(root, file.string() + ": ");
  e.name = r.text("name", file.stem().string());
  e.title = r.text("title", e.name);
  e.description = r.text("description", "");
  const std::string models = r.text("models", models_folder().string());
  e.models = sources.models.empty() ? folder / models : fs::absolute(sources.models);
  e.target = r.text("target", "target.gguf");
  e.networks = r.texts("networks");
  if (e.networks.empty()) r.fail("networks: list at least one, e.g. [\"paper-5g\"]");
  auto devices = r.texts("devices");
  if (devices.empty()) devices = {"native"};
  const std::string prompts_file = r.text("prompts", "heldout.jsonl");
  const auto tasks = r.texts("tasks");
  std::int64_t prompt_count = r.integer("prompt_count", kCountMax, 1);
  std::int64_t repetitions = r.integer("repetitions", 1, 1);
  std::int64_t max_tokens = r.integer("max_tokens", 128, 1);
  e.timed = r.flag("timed", true);
  std::int64_t warm_up = r.integer("warm_up", 1, 0);
  e.temperature = r.real("temperature", 0, 0, 100);
  e.deadline_ms = static_cast<std::uint32_t>(r.integer("deadline_ms", 3000, 1));
  e.congestion_control = r.text("congestion_control", "");
  if (!e.congestion_control.empty() && !is_congestion_control(e.congestion_control)) {
    r.fail("congestion_control: give the kernel's name of one, such as \"cubic\"");
  }
  e.row_budget = static_cast<std::uint32_t>(r.integer("row_budget", 0, 0, kDraftNodesMax + 1));
  e.padded_payloads = r.flag("padded_payloads", true);
  e.baseline = r.text("baseline", "");
  const auto seeds = r.integers("seeds", 0);
  e.seeds.assign(seeds.begin(), seeds.end());
  if (e.seeds.empty()) e.seeds = {1};
  auto clients = r.integers("clients", 1, kClientsMax);
  std::vector<std::int64_t> cuts;
  bool lasting = !r.node("offline_after");
  r.for_each("offline_after", [&](const toml::node& element) {
    const auto* text = element.as_string();
    const auto* number = element.as_integer();
    if (text && text->get() == "never") {
      lasting = true;
    } else if (number && number->get() >= 1 && number->get() <= kCountMax) {
      cuts.push_back(number->get());
    } else {
      r.fail("offline_after: give numbers of tokens, or \"never\"");
    }
  });
  r.with_table("calibration", [&](Reader& c) {
    e.pings = static_cast<std::uint32_t>(c.integer("pings", e.pings, 5, kPingsMax));
    e.rtt_tolerance = c.real("rtt_tolerance", e.rtt_tolerance, 0, 10);
    e.rate_tolerance = c.real("rate_tolerance", e.rate_tolerance, 0, 10);
  });
  r.with_table("quick", [&](Reader& quick) {
    const auto choose = [&](const char* key, std::int64_t& value, std::int64_t least) {
      const std::int64_t chosen = quick.integer(key, value, least);
      if (e.quick) value = chosen;
    };
    choose("prompt_count", prompt_count, 1);
    choose("repetitions", repetitions, 1);
    choose("max_tokens", max_tokens, 1);
    choose("warm_up", warm_up, 0);
    if (auto fewer = quick.integers("clients", 1, kClientsMax); e.quick && !fewer.empty()) {
      clients = fewer;
    }
    if (auto fewer = quick.integers("offline_after", 1); e.quick && !fewer.empty()) cuts = fewer;
  });
  r.for_each_table("arm", [&](Reader& arm) {
    e.arms.push_back(read_arm(arm));
    refuse_set_options(arm, e.arms.back(), e.temperature);
  });
  r.with_table("published", [&](Reader& p) { e.published = read_published(p); });
  r.finish();

  e.repetitions = static_cast<std::uint32_t>(repetitions);
  e.max_tokens = static_cast<std::uint32_t>(max_tokens);
  e.warm_up = static_cast<std::uint32_t>(warm_up);
  if (!clients.empty()) e.clients.assign(clients.begin(), clients.end());
  e.offline_after.clear();
  for (const auto cut : cuts) e.offline_after.emplace_back(static_cast<std::uint32_t>(cut));
  if (lasting) e.offline_after.emplace_back(std::nullopt);
  refuse_repeats(r, "seeds", seeds);
  refuse_repeats(r, "clients", clients);
  refuse_repeats(r, "offline_after", cuts);

  std::set<std::string> names;
  for (const Arm& arm : e.arms) {
    if (!names.insert(arm.name).second) r.fail("two arms are called '" + arm.name + "'");
    if (!lasting && !can_be_cut(arm)) {
      r.fail("arm '" + arm.name + "' never runs: add \"never\" to offline_after");
    }
  }
  if (e.arms.empty()) r.fail("there is no [[arm]]: an experiment needs at least one");
  if (!e.baseline.empty() && !names.contains(e.baseline)) {
    r.fail("baseline: no arm is called '" + e.baseline + "'");
  }
  if (!r.error().empty()) return Error{Errc::usage, r.error()};

  const fs::path prompts_path =
      prompts_file.find('/') == std::string::npos ? e.models / prompts_file : folder / prompts_file;
  auto prompts = read_prompts(prompts_path);
  if (!prompts) return Error{Errc::usage, prompts.error().message};
  e.prompts = choose_prompts(*std::move(prompts), tasks, static_cast<std::size_t>(prompt_count));
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
      return Error{Errc::usage, file.string() + ": devices: two profiles are called '" +
                                    device->name + "', and results go by that name"};
    }
    e.devices.push_back(std::move(*device));
  }
  return e;
}

}  // namespace edgedraft::netsim
