#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::bench {

// Prompts of `width` tokens without a context, as timed by another engine's program.
struct PeerPass {
  std::uint32_t width;
  std::vector<double> seconds;
};

struct PeerRun {
  std::string program;  // llama-bench of llama.cpp, a name or a path
  std::string model;
  std::vector<std::uint32_t> widths;
  std::size_t threads;
  std::uint32_t repetitions;
  bool on_gpu = false;  // all layers there, with flash attention
};

// Runs it to completion. Returns one pass per width, in the order of `widths`.
//
// Errors    as netsim::run_command; unsupported if the output is not llama-bench's
Result<std::vector<PeerPass>> run_peer(const PeerRun& run);

}  // namespace edgedraft::bench
