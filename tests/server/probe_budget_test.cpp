#include "server/proposers/probe_budget.h"

#include <gtest/gtest.h>

namespace edgedraft::server {
namespace {

using Seconds = std::chrono::duration<double>;

// A server that the budget may meet.
struct Server {
  double pass;     // seconds, independent of the width
  double row;      // seconds per row
  double guessed;  // tokens that guesses add per pass after probing
  std::uint32_t sessions = 1;
};

struct Settled {
  double probed;  // share of passes with probes
  double time;    // share of time spent on them
};

// Runs the budget until it settles.
Settled settle(const Server& server) {
  constexpr std::uint32_t kRows = 60;
  constexpr std::uint32_t kTree = 10;
  CostCurve costs;
  const auto seconds = [&](double rows) { return server.pass + server.row * rows; };
  for (const std::uint32_t rows : {1u, 32u, 256u}) {
    costs.anchor(rows, std::chrono::duration_cast<Duration>(Seconds(seconds(rows))));
  }
  ProbeBudget budget(kRows);
  double probed = 0;
  double extra = 0;
  double spent = 0;
  int steps = 0;
  double owed = 0;
  for (int step = 0; step < 20000; ++step) {
    const std::uint32_t rows =
        budget.next_rows({.sessions = server.sessions, .pass_rows_max = 192, .costs = costs});
    EXPECT_TRUE(rows == 0 || rows == kRows);
    owed += rows > 0 ? server.guessed : 0.0;
    const auto guessed = static_cast<std::uint32_t>(owed);
    owed -= guessed;
    budget.observe({.rows = rows > 0 ? kTree : 1,
                    .probe_rows = rows,
                    .tokens = 1 + guessed,
                    .guessed = guessed});
    if (step < 4000) continue;
    ++steps;
    probed += rows > 0;
    const double plain = seconds(server.sessions) / server.sessions;
    const double wide =
        seconds(server.sessions * (kTree + kRows)) / server.sessions;  // as if it were one pass
    spent += rows > 0 ? wide : plain;
    extra += rows > 0 ? wide - plain : 0.0;
  }
  return {.probed = probed / steps, .time = extra / spent};
}

TEST(ProbeBudgetTest, ProbesIfRowsAreCheapAndGuessesGood) {
  EXPECT_EQ(settle({.pass = 0.03, .row = 1e-5, .guessed = 0.8}).probed, 1.0);
}

TEST(ProbeBudgetTest, NeverProbesIfRowsCostAsMuchAsPasses) {
  EXPECT_EQ(settle({.pass = 1e-5, .row = 0.001, .guessed = 2.0}).probed, 0.0);
}

TEST(ProbeBudgetTest, RarelyProbesIfGuessesBringNothing) {
  const Settled settled = settle({.pass = 0.01, .row = 1e-4, .guessed = 0.05});
  EXPECT_LT(settled.time, 0.03);
  EXPECT_GT(settled.probed, 0.0) << "it still probes occasionally";
}

TEST(ProbeBudgetTest, RarelyProbesIfManySessionsFillPass) {
  const Server server{.pass = 0.03, .row = 5e-5, .guessed = 0.5};
  EXPECT_EQ(settle(server).probed, 1.0);
  Server busy = server;
  busy.sessions = 40;
  EXPECT_LT(settle(busy).probed, 0.1);
}

}  // namespace
}  // namespace edgedraft::server
