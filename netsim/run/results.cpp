#include "netsim/run/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "netsim/drivers/process.h"

namespace edgedraft::netsim {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string dump(const ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

// Makes the file's contents and its name survive a power loss.
Result<void> keep_on_disk(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  const bool kept = descriptor >= 0 && fsync(descriptor) == 0;
  const int code = errno;
  if (descriptor >= 0) close(descriptor);
  if (!kept) return Error{Errc::io, file.string() + ": " + std::generic_category().message(code)};
  // Not every file system supports this for folders; errors are ignored.
  const int folder = ::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return {};
}

Result<void> write_through(const fs::path& file, const std::string& text, std::ios::openmode mode) {
  std::ofstream out(file, std::ios::binary | mode);
  out << text << std::flush;
  if (!out) return Error{Errc::io, file.string() + ": cannot be written; is the disk full?"};
  return keep_on_disk(file);
}

Result<void> append(const fs::path& file, const std::string& text) {
  return write_through(file, text, std::ios::app);
}

// Atomic: a reader sees the old text or the new.
Result<void> replace(const fs::path& file, const std::string& text) {
  const fs::path fresh = file.string() + ".new";
  if (auto written = write_through(fresh, text, std::ios::trunc); !written) return written;
  std::error_code error;
  fs::rename(fresh, file, error);
  if (error) return Error{Errc::io, file.string() + ": " + error.message()};
  return keep_on_disk(file);
}

// Calls `use` with each line's JSON, discarded if malformed, and its text. An unterminated last
// line is skipped: its writer was killed.
template <class Use>
void for_each_line(const fs::path& file, Use use) {
  std::ifstream in(file, std::ios::binary);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    use(ordered_json::parse(line, nullptr, false), line);
  }
}

// Keeps the complete lines for which `keep` returns true.
template <class Keep>
Result<void> filter(const fs::path& file, Keep keep) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  std::string kept;
  for_each_line(file, [&](const ordered_json& json, const std::string& line) {
    if (json.is_object() && keep(json)) kept += line + '\n';
  });
  return replace(file, kept);
}

std::string trial_of(const ordered_json& line) {
  return line.value("trial", std::string());
}

std::uint32_t session_of(const ordered_json& line) {
  return line.value("session", std::uint32_t{1});
}

std::size_t lane_of(const ordered_json& line) {
  return line.value("lane", std::size_t{1});
}

// Leftovers of a run without a manifest would be mistaken for the next one's.
Result<void> refuse_leftovers(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"runs.jsonl", "cycles.jsonl", "calibration.jsonl"}) {
    if (!fs::exists(folder / name, ignored)) continue;
    return Error{Errc::usage,
                 (folder / name).string() +
                     " exists, but manifest.json, which names its experiment, is missing; remove "
                     "the .jsonl files, or give another folder with --out"};
  }
  const fs::path work = folder / "work";
  if (!fs::exists(work, ignored) || fs::is_empty(work, ignored) ||
      fs::exists(work / "lock", ignored)) {
    return {};
  }
  return Error{Errc::usage, work.string() +
                                " exists and was not created by a run; give another folder with "
                                "--out, since a run deletes its work folder's contents"};
}

Error nothing_to_resume(const fs::path& folder) {
  return {Errc::usage, folder.string() + ": no results to resume; remove --resume"};
}

ordered_json read_manifest(const fs::path& folder) {
  return ordered_json::parse(read_output(folder / "manifest.json"), nullptr, false);
}

Result<void> check_same_experiment(const fs::path& folder, const ordered_json& manifest,
                                   const std::string& experiment_hash) {
  const std::string hash =
      manifest.is_object() ? manifest.value("experiment_sha256", std::string()) : std::string();
  if (hash == experiment_hash) return {};
  return Error{Errc::usage,
               folder.string() +
                   ": results of another experiment, of older files or programs, or with other "
                   "options (--quick, --driver, --parallel); give another folder with --out"};
}

// Except the lock, which is held.
Result<void> empty_work(const fs::path& work) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(work, error)) {
    if (entry.path().filename() == "lock") continue;
    fs::remove_all(entry.path(), error);
    if (error) return Error{Errc::io, entry.path().string() + ": " + error.message()};
  }
  if (error) return Error{Errc::io, work.string() + ": " + error.message()};
  return {};
}

std::string csv_cell(const ordered_json& value) {
  if (value.is_null()) return {};
  const std::string text = value.is_string() ? value.get<std::string>() : dump(value);
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace

double number_of(const ordered_json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : 0.0;
}

Result<std::vector<ordered_json>> read_lines(const fs::path& file) {
  if (!std::ifstream(file)) return Error{Errc::io, file.string() + ": cannot be read"};
  std::vector<ordered_json> lines;
  for_each_line(file, [&](ordered_json json, const std::string& /*line*/) {
    lines.push_back(std::move(json));
  });
  const auto broken =
      std::ranges::find_if_not(lines, [](const ordered_json& json) { return json.is_object(); });
  if (broken == lines.end()) return lines;
  return Error{Errc::usage, file.string() + ", line " + std::to_string(broken - lines.begin() + 1) +
                                ": not a JSON object"};
}

Result<ResultsFolder> ResultsFolder::open(const fs::path& folder, bool resume,
                                          const std::string& experiment_hash, bool keep_any_link) {
  ResultsFolder results(fs::absolute(folder));
  std::error_code error;
  const bool there = fs::exists(folder / "manifest.json", error);
  if (there && !resume) {
    return Error{Errc::usage, folder.string() +
                                  ": already contains results; continue with --resume, or give "
                                  "another folder with --out"};
  }
  if (!there && resume) return nothing_to_resume(folder);
  if (!there) {
    if (auto clean = refuse_leftovers(folder); !clean) return clean.error();
  }
  fs::create_directories(results.work(), error);
  if (error) return Error{Errc::io, folder.string() + ": " + error.message()};
  results.lock_.reset(std::fopen((results.work() / "lock").c_str(), "ae"));
  if (!results.lock_ || flock(fileno(results.lock_.get()), LOCK_EX | LOCK_NB) != 0) {
    return Error{Errc::usage, folder.string() + ": in use by another run"};
  }
  if (there) {
    ordered_json manifest = read_manifest(folder);
    if (auto same = check_same_experiment(folder, manifest, experiment_hash); !same) {
      return same.error();
    }
    // Unfinished until this run completes.
    manifest["finished"] = nullptr;
    if (auto written = results.write_manifest(manifest); !written) return written.error();
    if (auto cut = results.drop(results.read(keep_any_link)); !cut) return cut.error();
    results.resumed_ = true;
  } else if (auto emptied = empty_work(results.work()); !emptied) {
    return emptied.error();
  }
  return results;
}

Result<ResultsFolder> ResultsFolder::look(const fs::path& folder,
                                          const std::string& experiment_hash, bool keep_any_link) {
  std::error_code ignored;
  if (!fs::exists(folder / "manifest.json", ignored)) return nothing_to_resume(folder);
  if (auto same = check_same_experiment(folder, read_manifest(folder), experiment_hash); !same) {
    return same.error();
  }
  ResultsFolder results(fs::absolute(folder));
  results.read(keep_any_link);
  results.resumed_ = true;
  return results;
}

ResultsFolder::Link ResultsFolder::link_of(const ordered_json& calibration) {
  return {.stage = calibration.value("stage", std::string()),
          .session = session_of(calibration),
          .lane = lane_of(calibration)};
}

std::set<ResultsFolder::Link> ResultsFolder::read(bool keep_any_link) {
  std::set<Link> refused;
  const auto find_refused = [&](const ordered_json& json, const std::string& /*line*/) {
    if (!json.is_object()) return;
    session_ = std::max(session_, session_of(json) + 1);
    if (!json.value("accepted", true) && !keep_any_link) refused.insert(link_of(json));
  };
  for_each_line(path_ / "calibration.jsonl", find_refused);
  const auto note_calibration = [&](const ordered_json& json, const std::string& /*line*/) {
    if (!json.is_object() || refused.contains(link_of(json))) return;
    const Link link = link_of(json);
    std::map<std::size_t, std::uint32_t>& unmeasured = unmeasured_lanes_[link.stage];
    if (json.value("when", std::string()) == "after") {
      unmeasured.erase(link.lane);
    } else {
      // Lanes open in order: the first one's link starts a new run, which may have fewer lanes.
      if (link.lane == 1) unmeasured.clear();
      unmeasured[link.lane] = link.session;
    }
  };
  for_each_line(path_ / "calibration.jsonl", note_calibration);
  // A trial's name begins with its stage's.
  const auto over = [](const ordered_json& run, const Link& link) {
    return session_of(run) == link.session && lane_of(run) == link.lane &&
           trial_of(run).starts_with(link.stage + '|');
  };
  // A run has one line per client; the last one completes it. If a client failed, the others'
  // results were not measured under the intended load.
  std::set<std::string> failed;
  for_each_line(path_ / "runs.jsonl", [&](const ordered_json& json, const std::string& /*line*/) {
    if (!json.is_object()) return;
    session_ = std::max(session_, session_of(json) + 1);
    if (json.contains("failure") && !json["failure"].is_null()) failed.insert(trial_of(json));
    const bool stands =
        std::ranges::none_of(refused, [&](const Link& link) { return over(json, link); });
    if (json.value("last_of_trial", false) && stands) done_.insert(trial_of(json));
  });
  for (const std::string& trial : failed) done_.erase(trial);
  return refused;
}

Result<void> ResultsFolder::drop(const std::set<Link>& refused) {
  const auto keep = [&](const ordered_json& line) { return has(trial_of(line)); };
  if (auto kept = filter(path_ / "runs.jsonl", keep); !kept) return kept;
  if (auto kept = filter(path_ / "cycles.jsonl", keep); !kept) return kept;
  return filter(path_ / "calibration.jsonl",
                [&](const ordered_json& line) { return !refused.contains(link_of(line)); });
}

std::map<std::size_t, std::uint32_t> ResultsFolder::unmeasured_lanes(
    const std::string& stage) const {
  const auto found = unmeasured_lanes_.find(stage);
  return found == unmeasured_lanes_.end() ? std::map<std::size_t, std::uint32_t>{{1, 1}}
                                          : found->second;
}

Result<void> ResultsFolder::add_run(const std::string& trial, const std::vector<ordered_json>& runs,
                                    const std::vector<ordered_json>& cycles) {
  std::string text;
  for (const ordered_json& cycle : cycles) text += dump(cycle) + '\n';
  if (auto added = append(path_ / "cycles.jsonl", text); !added) return added;
  text.clear();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ordered_json run = runs[i];
    run["last_of_trial"] = i + 1 == runs.size();
    text += dump(run) + '\n';
  }
  if (auto added = append(path_ / "runs.jsonl", text); !added) return added;
  done_.insert(trial);
  return {};
}

Result<void> ResultsFolder::add_calibration(const ordered_json& line) {
  return append(path_ / "calibration.jsonl", dump(line) + '\n');
}

Result<void> ResultsFolder::write_manifest(const ordered_json& manifest) {
  return replace(path_ / "manifest.json", dump(manifest, 2) + '\n');
}

Result<void> ResultsFolder::write_csv() const {
  const auto runs = read_lines(path_ / "runs.jsonl");
  if (!runs) return runs.error();
  std::string text;
  for (const ordered_json& run : *runs) {
    if (text.empty()) {
      for (const auto& [key, value] : run.items()) {
        if (key != "last_of_trial") text += (text.empty() ? "" : ",") + key;
      }
      text += '\n';
    }
    std::string line;
    for (const auto& [key, value] : run.items()) {
      if (key != "last_of_trial") line += (line.empty() ? "" : ",") + csv_cell(value);
    }
    text += line + '\n';
  }
  return replace(path_ / "runs.csv", text);
}

}  // namespace edgedraft::netsim
