#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace edgedraft {

// What an answer takes over a link, by a model of both ends in simulated time: no network, no
// weights. The device's control chooses by it, and experiments hold it against what they measure.
//
// Modelled: growth of the device's tree best first, hints and verdicts under way, the server's
// choice of rows by what they bring a second, its waits for hints that are worth waiting for, and
// economy. Left out: rates of links, other sessions, acceptance that falls with the lag, and what
// processors take for anything but passes and drafting steps.

// How both ends work together.
enum class RunKind : std::uint8_t {
  stream,      // the server decodes, a token a pass
  sequential,  // the device drafts, and waits for each verdict
  overlap,     // neither waits
  economy,     // the server makes no pass for its root alone while hints are on their way
};

struct RunModel {
  // Seconds that a message sent at `now` takes each way, down a verdict that brings so many tokens;
  // messages of a way keep their order. They may be asked for times that never fall.
  std::function<double(double now)> up;
  std::function<double(double now, std::uint32_t tokens)> down;
  // Seconds of the target's pass over so many rows, and of a step of drafting.
  std::function<double(std::uint32_t rows)> pass;
  double step = 0.0;
  // How often the drafter's likeliest token is right, its second, and so on.
  std::vector<double> ranks;

  // What the device grows: tokens tried per node and nodes expanded per step; for sequential drafts
  // the levels and the nodes kept, for the others the least probability of a path.
  struct Shape {
    std::uint32_t breadth = 8;
    std::uint32_t depth = 6;
    std::uint32_t nodes = 62;
  } shape{};
  double floor = 0.02;

  std::uint32_t prompt_rows = 64;
  double setup = 0.0;       // seconds before the prompt leaves
  double rows_delay = 0.0;  // from the first verdict until the prompt's activations have come
};

struct RunForecast {
  double seconds = 0.0;  // a token, the prompt's share and the set-up's in it
  double passes = 0.0;   // a token
  double rows = 0.0;     // of the target, a token
  double steps = 0.0;    // of drafting, a token
};

// The mean over so many answers of `tokens` tokens.
//
// Requires  tokens > 1, answers > 0; ranks not empty unless it streams
// Cost      about 20 us a token
RunForecast forecast(const RunModel& model, RunKind kind, std::uint32_t tokens,
                     std::uint32_t answers, std::uint64_t seed);

}  // namespace edgedraft
