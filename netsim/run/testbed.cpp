#include "netsim/run/testbed.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "netsim/pace_profile.h"
#include "netsim/run/run_record.h"
#include "shared/base/bytes.h"
#include "shared/base/sha256.h"

namespace edgedraft::netsim {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr auto kAnswerMax = std::chrono::minutes(15);
// Above the duration of any answer.
constexpr std::uint32_t kNoDeadlineMs = 2 * std::chrono::milliseconds(kAnswerMax).count();
constexpr auto kEndGrace = std::chrono::seconds(2);
constexpr auto kPoll = std::chrono::milliseconds(2);
// Sessions outlive clients, and after a cut link the server cannot know that a session is over:
// leaves room for earlier answers' sessions.
constexpr std::uint32_t kSessionsMin = 256;
// A port without a listener.
constexpr const char* kNowhere = "127.0.0.1:9";

Result<void> write_file(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (out) return {};
  return Error{Errc::io, file.string() + ": cannot be written; is the disk full?"};
}

// Private folders for settings and learned data, so that user settings do not affect measurements
// and measurements do not change user data.
std::map<std::string, std::string> own_folders(const fs::path& work) {
  const std::string folder = fs::absolute(work).string();  // programs ignore relative ones
  return {{"XDG_CONFIG_HOME", folder}, {"XDG_CACHE_HOME", folder}, {"XDG_STATE_HOME", folder}};
}

// Complete lines of a growing file from `offset` on; advances `offset` past them.
std::vector<std::string> new_lines(const fs::path& file, std::size_t& offset) {
  std::vector<std::string> lines;
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  for (std::string line; std::getline(in, line) && !in.eof();) {
    offset += line.size() + 1;
    lines.push_back(std::move(line));
  }
  return lines;
}

// Counts an answer's tokens so far, from a file of cycles.
class TokenCounter {
 public:
  explicit TokenCounter(fs::path file) : file_(std::move(file)) {}
  std::uint32_t count() {
    for (const std::string& line : new_lines(file_, offset_)) {
      const auto json = ordered_json::parse(line, nullptr, false);
      if (json.is_object()) count_ = json.value("answer_tokens", count_);
    }
    return count_;
  }

 private:
  fs::path file_;
  std::size_t offset_ = 0;
  std::uint32_t count_ = 0;
};

constexpr const char* kEventKinds[] = {"down", "up", "new_address"};  // by LinkEvent::Kind

// Time of the client's request on the trial's clock. The client reports the time to its first token
// from its own start, at `started`, and from the request. Null without an answer.
ordered_json asked_at_ms(const std::string& answer, Duration started) {
  const auto json = ordered_json::parse(answer, nullptr, false);
  if (!json.is_object() || !json.contains("stats")) return {};
  const ordered_json& stats = json["stats"];
  const auto from_start = stats.find("start_to_first_token_s");
  if (from_start == stats.end() || !from_start->is_number()) return {};
  return 1000 *
         (seconds(started) + from_start->get<double>() - stats.value("time_to_first_token_s", 0.0));
}

// Suffix for an error about a failed program.
std::string what_it_said(const fs::path& errors) {
  const std::string said = last_line(errors);
  return said.empty() ? "; it printed no error" : ": " + said;
}

// The drafter of the arm's server: a bundle, or a kind without weights; empty: none.
const std::string& server_drafter(const Arm& arm) {
  return arm.kind == Arm::Kind::server_speculation && arm.server_drafter.empty()
             ? arm.bundle
             : arm.server_drafter;
}

}  // namespace

struct Testbed::Client {
  std::uint32_t number = 0;  // within its trial
  const Prompt* prompt;
  fs::path base;  // of its files' names
  std::vector<std::string> command{};
  Instant started{};
  std::optional<Process> process{};

  fs::path file(const char* suffix) const { return base.string() + suffix; }
};

Result<void> Testbed::prepare(Client& client, const Arm& arm, const Trial& trial) {
  fs::remove(client.file(".cycles"));
  if (auto written = write_file(client.file(".prompt"), client.prompt->text); !written) {
    return written;
  }
  auto argv = client_command(arm, trial, client);
  if (!argv) return argv.error();
  client.command = arm.place == Arm::Place::server ? parts_.link->at_server(*std::move(argv))
                                                   : parts_.link->at_device(*std::move(argv));
  return {};
}

Result<void> Testbed::start(Client& client) {
  auto process = Process::start({.argv = client.command,
                                 .output = client.file(".out"),
                                 .errors = client.file(".err"),
                                 .environment = own_folders(parts_.work)});
  if (!process) return process.error();
  client.started = Clock::now();
  client.process = *std::move(process);
  return {};
}

Result<std::unique_ptr<Testbed>> Testbed::open(Parts parts) {
  std::unique_ptr<Testbed> testbed(new Testbed(std::move(parts)));
  if (auto started = testbed->start_servers(); !started) return started.error();
  return testbed;
}

Result<void> Testbed::start_servers() {
  // Beyond loopback a server requires sign-in.
  if (auto written = write_file(parts_.work / "token", "experiment\n"); !written) return written;
  std::error_code error;
  fs::permissions(parts_.work / "token", fs::perms::owner_read | fs::perms::owner_write, error);
  if (error) return Error{Errc::io, (parts_.work / "token").string() + ": " + error.message()};
  std::set<std::string> drafters{""};
  for (const Arm& arm : parts_.experiment.arms) drafters.insert(server_drafter(arm));
  for (const std::string& drafter : drafters) {
    auto server = start_server(drafter);
    if (!server) return server.error();
    servers_.emplace(drafter, std::move(*server));
  }
  return {};
}

Testbed::Server& Testbed::server_of(const Arm& arm) {
  return servers_.at(server_drafter(arm));
}

Result<Testbed::Server> Testbed::start_server(const std::string& speculates_with) {
  const Experiment& e = parts_.experiment;
  const std::uint32_t sessions = std::max(kSessionsMin, 2 * std::ranges::max(e.clients));
  std::vector<std::string> argv{parts_.program.string(),
                                "server",
                                "--model",
                                (e.models / e.target).string(),
                                "--listen",
                                parts_.link->server_listen(),
                                "--state",
                                (parts_.work / "server-state").string(),
                                "--token-file",
                                (parts_.work / "token").string(),
                                "--max-sessions",
                                std::to_string(sessions),
                                "--no-prefix-cache",
                                "--log-level",
                                "warn"};
  std::set<std::string> bundles;
  for (const Arm& arm : e.arms) {
    if (server_drafter(arm) == speculates_with && !arm.bundle.empty()) bundles.insert(arm.bundle);
  }
  if (!speculates_with.empty()) argv.insert(argv.end(), {"--speculate", speculates_with});
  for (const std::string& bundle : bundles) {
    argv.insert(argv.end(), {"--bundle", (e.models / (bundle + ".gguf")).string()});
  }
  if (parts_.device.pace.paces_target()) {
    argv.insert(argv.end(), {"--pace-profile", parts_.device.file.string()});
    if (!e.padded_payloads) argv.emplace_back("--no-payload-padding");
  }
  const std::string name = speculates_with.empty() ? "server" : "server-" + speculates_with;
  const fs::path output = parts_.work / (name + ".out");
  const fs::path errors = parts_.work / (name + ".err");
  auto process = Process::start({.argv = parts_.link->at_server(argv),
                                 .output = output,
                                 .errors = errors,
                                 .environment = own_folders(parts_.work)});
  if (!process) return process.error();
  Server server{.process = std::move(*process), .errors = errors};
  const Instant deadline = Clock::now() + parts_.server_start_max;
  std::string line;
  while (!line.ends_with('\n')) {
    if (parts_.cancelled()) return Error{Errc::cancelled, "interrupted"};
    if (!server.process.running()) {
      return Error{Errc::link_down, "the server did not start: it exited with status " +
                                        std::to_string(server.process.status()) +
                                        what_it_said(errors)};
    }
    if (Clock::now() > deadline) {
      return Error{Errc::link_down, "the server did not start: it was not ready after " +
                                        duration_text(seconds(parts_.server_start_max)) +
                                        what_it_said(errors)};
    }
    std::this_thread::sleep_for(kPoll);
    line = read_output(output);
  }
  std::string ready;
  std::string pin_word;
  std::istringstream(line) >> ready >> server.address >> pin_word >> server.pin;
  const std::string port = server.address.substr(server.address.rfind(':') + 1);
  const auto target = parts_.link->device_target(static_cast<std::uint16_t>(std::stoul(port)));
  if (!target) return target.error();
  server.device_address = *target;
  return server;
}

// The target's own answer, for synthetic drafts. Requested once, beside the server.
Result<fs::path> Testbed::plain_answer(const Prompt& prompt) {
  const Experiment& e = parts_.experiment;
  const std::string key = to_hex(sha256(as_byte_view(
      prompt.text + '\n' + std::to_string(parts_.seed) + '\n' + std::to_string(e.max_tokens))));
  const fs::path file = parts_.work / "answers" / (key + ".json");
  std::error_code ignored;
  if (fs::exists(file, ignored)) return file;
  fs::create_directories(file.parent_path(), ignored);
  const Arm arm{.name = "oracle", .kind = Arm::Kind::plain, .place = Arm::Place::server};
  Client client{.prompt = &prompt, .base = parts_.work / "oracle"};
  const Trial trial{.arm = 0, .prompt = 0, .id = "oracle"};
  if (auto prepared = prepare(client, arm, trial); !prepared) return prepared.error();
  if (auto started = start(client); !started) return started.error();
  Process& process = *client.process;
  if (!process.wait_until(Clock::now() + kAnswerMax, parts_.cancelled) && parts_.cancelled()) {
    return Error{Errc::cancelled, "interrupted"};
  }
  if (process.running() || process.status() != 0) {
    return Error{Errc::io,
                 "the plain answer for synthetic drafts failed: " + last_line(client.file(".err"))};
  }
  fs::rename(client.file(".out"), file);
  return file;
}

Result<std::vector<std::string>> Testbed::client_command(const Arm& arm, const Trial& trial,
                                                         const Client& client) {
  const Experiment& e = parts_.experiment;
  const bool drafts = arm.kind == Arm::Kind::split || arm.kind == Arm::Kind::local;
  const std::string bundle = arm.bundle.empty() ? e.target : arm.bundle + ".gguf";
  std::uint32_t tokens_max = e.max_tokens;
  if (arm.kind == Arm::Kind::stop && trial.offline_after) {
    tokens_max = std::min(tokens_max, *trial.offline_after);
  }
  const std::string& server = arm.kind == Arm::Kind::local      ? kNowhere
                              : arm.place == Arm::Place::server ? server_of(arm).address
                                                                : server_of(arm).device_address;
  const std::uint32_t deadline_ms =
      arm.deadline_ms.value_or(writes_offline(arm) ? e.deadline_ms : kNoDeadlineMs);
  std::vector<std::string> argv{parts_.program.string(),
                                "run",
                                "--json",
                                "-f",
                                client.file(".prompt").string(),
                                "--server",
                                server,
                                "--pin",
                                server_of(arm).pin,
                                "--token-file",
                                (parts_.work / "token").string(),
                                "--bundle",
                                (e.models / bundle).string(),
                                "--max-tokens",
                                std::to_string(tokens_max),
                                "--seed",
                                std::to_string(parts_.seed),
                                "--deadline-ms",
                                std::to_string(deadline_ms),
                                "--cycles",
                                client.file(".cycles").string()};
  const auto add = [&](std::initializer_list<std::string> words) {
    argv.insert(argv.end(), words);
  };
  if (e.temperature > 0) add({"--temperature", std::to_string(e.temperature)});
  if (!drafts) add({"--plain"});
  if (arm.kind == Arm::Kind::split) add({"--hold", arm.hold});
  if (!arm.tree.empty()) add({"--tree", arm.tree});
  if (arm.chain) add({"--tree", std::to_string(*arm.chain)});
  if (drafts && parts_.device.pace.paces_drafter()) {
    add({"--pace-profile", parts_.device.file.string()});
    if (arm.place == Arm::Place::server) add({"--pace-beside-target"});
  }
  if (arm.kind == Arm::Kind::split && trial.offline_after) {
    add({"--offline-after", std::to_string(*trial.offline_after)});
  }
  if (arm.acceptance) {
    const auto answer = plain_answer(*client.prompt);
    if (!answer) return answer.error();
    add({"--oracle", answer->string(), "--oracle-acceptance", std::to_string(*arm.acceptance),
         "--oracle-seed",
         std::to_string(
             draft_seed(parts_.seed, trial.repetition, client.prompt->id, client.number))});
  }
  argv.insert(argv.end(), arm.options.begin(), arm.options.end());
  return argv;
}

Result<TrialOutcome> Testbed::run(const Trial& trial) {
  const Experiment& e = parts_.experiment;
  const Arm& arm = e.arms[trial.arm];
  std::vector<Client> clients;
  for (std::uint32_t i = 0; i < trial.clients; ++i) {
    Client& client =
        clients.emplace_back(Client{.number = i,
                                    .prompt = &e.prompts[prompt_index(e, trial, i)],
                                    .base = parts_.work / ("client" + std::to_string(i))});
    if (auto prepared = prepare(client, arm, trial); !prepared) return prepared.error();
  }
  Server& server = server_of(arm);
  late_passes(server);
  for (Client& client : clients) {
    if (auto started = start(client); !started) return started.error();
  }
  ordered_json events = ordered_json::array();
  const auto followed = follow(trial, clients, events);
  if (!followed) return followed.error();
  if (auto alive = check_alive(); !alive) return alive.error();

  TrialOutcome outcome;
  for (std::uint32_t i = 0; i < clients.size(); ++i) {
    RunSource source{.experiment = e,
                     .network = parts_.network,
                     .device = parts_.device,
                     .driver = std::string(parts_.link->name()),
                     .approximate = parts_.link->approximate(),
                     .seed = parts_.seed,
                     .trial = trial,
                     .client = i,
                     .status = clients[i].process->status(),
                     .answer = read_output(clients[i].file(".out")),
                     .cycles = read_output(clients[i].file(".cycles")),
                     .added_ms = arm.place == Arm::Place::server ? round_trip_ms_ : 0,
                     .late_passes = i == 0 ? late_passes(server) : 0,
                     .events = events};
    if (source.status != 0) {
      std::string why = last_line(clients[i].file(".err"));
      if (Clock::now() - clients[i].started > kAnswerMax) {
        why = "took longer than " + std::to_string(kAnswerMax.count()) + " minutes";
      }
      outcome.failure = why.empty() ? "exit status " + std::to_string(source.status) : why;
      source.failure = *outcome.failure;
    }
    ordered_json run = run_record(source);
    run["asked_at_ms"] = asked_at_ms(source.answer, clients[i].started - clients[0].started);
    outcome.runs.push_back(std::move(run));
    for (ordered_json& line : cycle_records(source)) outcome.cycles.push_back(std::move(line));
  }
  return outcome;
}

// Waits for the clients and fires the profile's events meanwhile. Its clock starts with each
// answer's client, so that every arm meets the same events.
Result<void> Testbed::follow(const Trial& trial, std::vector<Client>& clients,
                             ordered_json& events) {
  const Arm& arm = parts_.experiment.arms[trial.arm];
  const bool over_link = arm.place == Arm::Place::device && arm.kind != Arm::Kind::local;
  const bool linked = over_link && parts_.link->name() != "loopback";
  const Instant start = Clock::now();
  const std::vector<LinkEvent> scripted =
      linked ? events_until(parts_.network, kAnswerMax) : std::vector<LinkEvent>{};
  std::size_t next_event = 0;
  std::size_t next_outage = 0;
  const std::vector<TokenOutage>& outages = parts_.network.outages;
  TokenCounter tokens(clients.front().file(".cycles"));
  bool disturbed = false;
  const auto fire = [&](const LinkEvent& event) {
    disturbed = true;
    events.push_back({{"kind", kEventKinds[static_cast<std::size_t>(event.kind)]},
                      {"at_ms", 1000 * seconds(Clock::now() - start)},
                      {"duration_ms", 1000 * seconds(event.duration)}});
    return parts_.link->fire(event);
  };
  const auto running = [](Client& client) { return client.process->running(); };
  while (std::ranges::any_of(clients, running)) {
    const Duration now = Clock::now() - start;
    if (parts_.cancelled()) return Error{Errc::cancelled, "interrupted"};
    if (now > kAnswerMax) {
      for (Client& client : clients) client.process->end(kEndGrace);
      break;
    }
    if (next_event < scripted.size() && now >= scripted[next_event].at) {
      if (auto fired = fire(scripted[next_event++]); !fired) return fired;
    }
    if (linked && next_outage < outages.size() &&
        tokens.count() >= outages[next_outage].after_tokens) {
      const LinkEvent down{
          .kind = LinkEvent::Kind::down, .at = now, .duration = outages[next_outage++].duration};
      if (auto fired = fire(down); !fired) return fired;
    }
    std::this_thread::sleep_for(kPoll);
  }
  // Restores the link for the next answer.
  if (disturbed) return parts_.link->fire({.kind = LinkEvent::Kind::up});
  return {};
}

std::uint32_t Testbed::late_passes(Server& server) {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(new_lines(server.errors, server.errors_read),
                            [](const std::string& line) { return line.starts_with(kLatePass); }));
}

Result<void> Testbed::check_alive() {
  for (auto& [drafter, server] : servers_) {
    if (server.process.running()) continue;
    return Error{Errc::link_down, "the server exited with status " +
                                      std::to_string(server.process.status()) + ": " +
                                      last_line(server.errors)};
  }
  const auto statistics = parts_.link->statistics();
  if (!statistics) return statistics.error();
  return {};
}

}  // namespace edgedraft::netsim
