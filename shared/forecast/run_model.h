#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace edgedraft {

// Predicts the time of an answer over a link by simulating both ends, without network or weights.
// The device's control uses it, and experiments compare it with measurements.
//
// It models best-first growth of the device's tree, hints and verdicts in flight, and economy. It
// also models the server's choice of rows by gain per second and its waits for worthwhile hints.
// Not modelled: link bandwidth, other sessions, acceptance that falls with lag, and compute other
// than passes and drafting steps.

// Cooperation of both ends.
enum class RunKind : std::uint8_t {
  stream,      // the server decodes, one token per pass
  sequential,  // the device drafts and waits for each verdict
  overlap,     // neither waits
  economy,     // the server runs no pass for its root alone while hints are in flight
};

struct RunModel {
  // One-way delays in seconds for a message sent at `now`; a verdict carries the given number of
  // tokens. Messages of one direction keep their order. Called with non-decreasing times.
  std::function<double(double now)> up;
  std::function<double(double now, std::uint32_t tokens)> down;
  // Seconds of a target pass over `rows` rows, and of a drafting step.
  std::function<double(std::uint32_t rows)> pass;
  double step = 0.0;
  // Probability that the drafter's first, second, ... choice is right.
  std::vector<double> ranks;

  // Shape of the device's tree: tokens tried per node, nodes expanded per step, then levels and
  // kept nodes (sequential drafts) or the minimum path probability.
  struct Shape {
    std::uint32_t breadth = 8;
    std::uint32_t depth = 6;
    std::uint32_t nodes = 62;
  } shape{};
  double floor = 0.02;

  std::uint32_t prompt_rows = 64;
  double setup = 0.0;       // seconds before the prompt leaves
  double rows_delay = 0.0;  // from the first verdict to the prompt's activations
};

struct RunForecast {
  double seconds = 0.0;  // per token, with a share of prompt and setup
  double passes = 0.0;   // per token
  double rows = 0.0;     // target rows per token
  double steps = 0.0;    // drafting steps per token
};

// Mean over `answers` answers of `tokens` tokens.
//
// Requires  tokens > 1, answers > 0; ranks not empty unless it streams
// Cost      about 20 us per token
RunForecast forecast(const RunModel& model, RunKind kind, std::uint32_t tokens,
                     std::uint32_t answers, std::uint64_t seed);

}  // namespace edgedraft
