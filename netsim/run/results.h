#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::netsim {

// The folder of one experiment's results (docs/experiments.md, "Results"):
//   manifest.json  runs.jsonl  runs.csv  cycles.jsonl  calibration.jsonl  report.html  work/
// Lines are only ever appended, cycles before the run that they belong to, and are on the disk
// before the next ones; so a folder whose writer was killed, or whose machine went dark, holds
// whole runs, and what is behind them is cut off when it is opened again.
class ResultsFolder {
 public:
  // A fresh folder, or with `resume` one that holds results of the same experiment. Its runs
  // that failed are dropped, to be made again, and so are those on a link that was out of
  // tolerance, unless `keep_any_link`. What is left in the work/ of a fresh one goes.
  // Locked against a second writer while this object lives. Its manifest says that resumed results
  // are not finished, until it is written again.
  //
  // Errors    usage where there are results already, or parts of some, or none to resume, or
  //           another's, or a work/ that is not ours; io
  static Result<ResultsFolder> open(const std::filesystem::path& folder, bool resume,
                                    const std::string& experiment_hash, bool keep_any_link = false);
  // What could be resumed, for a look alone: nothing is written, nor may be.
  // Errors    usage where there is nothing, or another experiment's
  static Result<ResultsFolder> look(const std::filesystem::path& folder,
                                    const std::string& experiment_hash, bool keep_any_link = false);
  ResultsFolder(ResultsFolder&& other) noexcept;
  ~ResultsFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path work() const { return path_ / "work"; }
  bool resumed() const { return resumed_; }
  // 1 for the run that made the folder, and one more each time that it is resumed. Runs and
  // calibrations say it, as each session has links of its own.
  std::uint32_t session() const { return session_; }

  // Whether it ended well, or was tried in this session.
  bool has(const std::string& trial) const { return done_.contains(trial); }
  // The lanes of a stage whose links were not measured after its answers, each with its session.
  std::map<std::size_t, std::uint32_t> unmeasured_lanes(const std::string& stage) const;
  // Errors    io where the disk is full
  Result<void> add_run(const std::string& trial, const std::vector<nlohmann::ordered_json>& runs,
                       const std::vector<nlohmann::ordered_json>& cycles);
  Result<void> add_calibration(const nlohmann::ordered_json& line);
  Result<void> write_manifest(const nlohmann::ordered_json& manifest);
  // runs.csv, from all runs.
  Result<void> write_csv() const;

 private:
  // What a lane's answers in one session came over.
  struct Link {
    std::string stage;
    std::uint32_t session;
    std::size_t lane;
    auto operator<=>(const Link&) const = default;
  };

  explicit ResultsFolder(std::filesystem::path folder) : path_(std::move(folder)) {}
  static Link link_of(const nlohmann::ordered_json& calibration);
  // Finds out what is there. Returns   the links that were out of tolerance, whose runs do not
  // count
  std::set<Link> read(bool keep_any_link);
  // Drops what does not count, and what is not whole.
  Result<void> drop(const std::set<Link>& refused);

  std::filesystem::path path_;
  int lock_ = -1;
  bool resumed_ = false;
  std::uint32_t session_ = 1;
  std::set<std::string> done_;
  // By stage that was measured.
  std::map<std::string, std::map<std::size_t, std::uint32_t>> unmeasured_lanes_;
};

// The objects of a file of JSON lines; a last one that is half written is not there yet.
// Errors    io; usage naming the line that is none
Result<std::vector<nlohmann::ordered_json>> read_lines(const std::filesystem::path& file);

}  // namespace edgedraft::netsim
