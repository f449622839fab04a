#include "tests/bench/peer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "netsim/drivers/command.h"

namespace edgedraft::bench {
namespace {

constexpr double kNanosecondsASecond = 1e9;

}  // namespace

Result<std::vector<PeerPass>> run_peer(const PeerRun& run) {
  std::string widths;
  for (const std::uint32_t width : run.widths) {
    widths += (widths.empty() ? "" : ",") + std::to_string(width);
  }
  std::vector<std::string> command{
      run.program, "-m", run.model, "-t", std::to_string(run.threads),     "-n",
      "0",         "-p", widths,    "-r", std::to_string(run.repetitions), "-o",
      "json"};
  if (run.on_gpu) command.insert(command.end(), {"-ngl", "99", "-fa", "1"});
  const auto text = netsim::run_command(command);
  if (!text) return text.error();
  std::vector<PeerPass> passes;
  try {
    const auto report = nlohmann::json::parse(*text);
    for (const std::uint32_t width : run.widths) {
      const auto test = std::find_if(report.begin(), report.end(), [&](const auto& t) {
        return t.at("n_prompt") == width && t.at("n_gen") == 0;
      });
      if (test == report.end()) {
        return Error{Errc::unsupported,
                     run.program + ": printed no time for " + std::to_string(width) + " tokens"};
      }
      PeerPass& pass = passes.emplace_back(PeerPass{.width = width, .seconds = {}});
      for (const double nanoseconds : test->at("samples_ns").get<std::vector<double>>()) {
        pass.seconds.push_back(nanoseconds / kNanosecondsASecond);
      }
      if (pass.seconds.empty() || *std::ranges::min_element(pass.seconds) <= 0.0) {
        return Error{Errc::unsupported, run.program + ": printed no usable times for " +
                                            std::to_string(width) + " tokens"};
      }
    }
  } catch (const nlohmann::json::exception& e) {
    return Error{Errc::unsupported,
                 run.program + ": output is not that of llama-bench -o json: " + e.what()};
  }
  return passes;
}

}  // namespace edgedraft::bench
