#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netsim/pace_profile.h"
#include "shared/base/error.h"
#include "shared/forecast/run_model.h"

namespace edgedraft::netsim {

struct Prompt {
  std::string id;  // task and index within it: "tool-3"
  std::string task;
  std::string text;
  std::string reference;  // empty: none
};

// Prompts of a file, in order: JSON lines with "prompt" and, optionally, "task" and "reference".
// Empty lines are skipped.
//
// Errors    io; bad_file naming the line
Result<std::vector<Prompt>> read_prompts(const std::filesystem::path& file);

// One configuration under comparison.
struct Arm {
  enum class Kind : std::uint8_t {
    plain,               // no drafting
    split,               // drafter on the device, target on the server
    server_speculation,  // the server drafts, the device only receives
    local,               // the drafter alone, without any server
    stop,                // plain, ending where another arm's link is cut
  };
  // server: the client runs at the server's end of the link, like a streaming server. One measured
  // round trip is added to its times.
  enum class Place : std::uint8_t { device, server };

  std::string name;
  Kind kind{};
  Place place{};
  std::string bundle;                    // below the experiment's models
  std::string tree;                      // empty: the client's default
  std::optional<RunModel::Shape> shape;  // shape of `tree`
  std::optional<std::uint32_t> chain;
  std::string hold = "lockstep";             // split arms only: values as for `edgedraft run`
  std::string server_drafter;                // a drafter kind without weights that the server runs
  std::optional<double> acceptance;          // synthetic
  std::optional<std::uint32_t> deadline_ms;  // unset: the experiment's, if it can continue offline
  std::vector<std::string> options;          // further ones of `edgedraft run`
};

std::string_view to_string(Arm::Kind kind);

// True if its answers can continue offline. The others wait for the server, unless an arm's own
// deadline_ms differs.
bool writes_offline(const Arm& arm);

// True if its answers can have a cut link: they continue without it, or end there.
bool can_be_cut(const Arm& arm);

struct DeviceProfile {
  std::string name;
  std::filesystem::path file;
  PaceProfile pace;
};

// A paper's figure for comparison with ours.
struct PublishedRow {
  std::string arm;
  std::string network;                         // empty: any
  std::optional<std::uint32_t> offline_after;  // table 4's B
  std::optional<double> tokens_per_second;
  std::optional<double> acceptance_length;
  std::optional<double> target_calls;
  std::optional<double> success_percent;
};

struct Published {
  std::string source;
  double plain_tokens_per_second = 0;  // 0: not given
  double plain_target_calls = 0;       // tokens per answer
  std::vector<PublishedRow> rows;
};

struct Experiment {
  std::filesystem::path file;
  std::string text;  // text of the file, for its hash
  std::string name;
  std::string title;
  std::string description;

  std::filesystem::path models;
  std::string target;
  std::vector<std::string> networks;  // names or files
  std::vector<DeviceProfile> devices;
  std::vector<Prompt> prompts;
  std::vector<Arm> arms;
  std::string baseline;  // the arm that the others are compared with
  std::vector<std::uint64_t> seeds;
  std::uint32_t repetitions = 1;
  std::uint32_t warm_up = 1;  // discarded answers per arm after each server start
  bool timed = true;          // false: texts are compared, and times are meaningless
  std::uint32_t max_tokens = 128;
  double temperature = 0;
  std::uint32_t deadline_ms = 3000;
  std::string congestion_control;         // overrides every network's; empty: its profile's
  bool padded_payloads = true;            // activations of the paced model's size
  std::vector<std::uint32_t> clients{1};  // at the same time
  std::vector<std::optional<std::uint32_t>> offline_after{{}};  // nullopt: no cut

  std::uint32_t pings = 60;
  double rtt_tolerance = 0.2;  // relative, of the median
  double rate_tolerance = 0.2;
  Published published;
  bool quick = false;
};

struct ExperimentSources {
  std::filesystem::path models{};   // overrides the file's
  std::filesystem::path devices{};  // folder of device profiles, besides the shipped ones
  bool quick = false;
};

// Errors    io, usage naming file, key and allowed values
Result<Experiment> read_experiment(const std::filesystem::path& file,
                                   const ExperimentSources& sources);

}  // namespace edgedraft::netsim
