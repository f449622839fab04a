#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::netsim {

// A results folder (docs/experiments.md, "Results"):
//   manifest.json  runs.jsonl  runs.csv  cycles.jsonl  calibration.jsonl  report.html  work/
// Lines are only appended, a run's cycles before the run, and are flushed to disk before later
// ones. So a folder whose writer was killed, or whose machine lost power, holds whole runs;
// anything after them is truncated when it is opened again.
class ResultsFolder {
 public:
  // A new folder or, with `resume`, one with results of the same experiment. Failed runs are
  // dropped to be repeated, and so are runs over a link out of tolerance, unless `keep_any_link`.
  // Old contents of work/ in a new folder are removed. Locked against a second writer for this
  // object's lifetime. The manifest marks resumed results as unfinished until it is written again.
  //
  // Errors    usage if results or parts of some exist, none exist to resume, they are another
  //           experiment's, or work/ is not ours; io
  static Result<ResultsFolder> open(const std::filesystem::path& folder, bool resume,
                                    const std::string& experiment_hash, bool keep_any_link = false);
  // Read-only view of results that could be resumed.
  // Errors    usage if there are none, or another experiment's
  static Result<ResultsFolder> look(const std::filesystem::path& folder,
                                    const std::string& experiment_hash, bool keep_any_link = false);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path work() const { return path_ / "work"; }
  bool resumed() const { return resumed_; }
  // 1 for the run that created the folder, plus 1 per resume. Runs and calibrations record it,
  // since each session has its own links.
  std::uint32_t session() const { return session_; }

  // True if it succeeded, or was tried in this session.
  bool has(const std::string& trial) const { return done_.contains(trial); }
  // Lanes of a stage without a measurement after their answers, with their sessions.
  std::map<std::size_t, std::uint32_t> unmeasured_lanes(const std::string& stage) const;
  // Errors    io if the disk is full
  Result<void> add_run(const std::string& trial, const std::vector<nlohmann::ordered_json>& runs,
                       const std::vector<nlohmann::ordered_json>& cycles);
  Result<void> add_calibration(const nlohmann::ordered_json& line);
  Result<void> write_manifest(const nlohmann::ordered_json& manifest);
  // Writes runs.csv from all runs.
  Result<void> write_csv() const;

 private:
  // The link of a lane's answers in one session.
  struct Link {
    std::string stage;
    std::uint32_t session;
    std::size_t lane;
    auto operator<=>(const Link&) const = default;
  };

  explicit ResultsFolder(std::filesystem::path folder) : path_(std::move(folder)) {}
  static Link link_of(const nlohmann::ordered_json& calibration);
  // Scans the folder.
  // Returns   links out of tolerance, whose runs do not count
  std::set<Link> read(bool keep_any_link);
  // Drops rejected and incomplete runs.
  Result<void> drop(const std::set<Link>& refused);

  std::filesystem::path path_;
  struct Closing {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closing> lock_;
  bool resumed_ = false;
  std::uint32_t session_ = 1;
  std::set<std::string> done_;
  // By measured stage.
  std::map<std::string, std::map<std::size_t, std::uint32_t>> unmeasured_lanes_;
};

// 0 if the line has no such number.
double number_of(const nlohmann::ordered_json& line, const char* key);

// Objects of a JSON lines file, without an incomplete last line.
// Errors    io; usage naming a malformed line
Result<std::vector<nlohmann::ordered_json>> read_lines(const std::filesystem::path& file);

}  // namespace edgedraft::netsim
