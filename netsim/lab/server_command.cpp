#include "netsim/lab/commands.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "netsim/lab/paced_proposer.h"
#include "netsim/pace_profile.h"
#include "server/program/serve.h"
#include "shared/program/validators.h"

namespace edgedraft::lab {
namespace {

Result<void> pad_payloads(server::ModelHost& host, const PaceProfile& profile) {
  for (server::HostedDrafter& drafter : host.drafters()) {
    if (!drafter.tap) continue;
    const std::string& name = drafter.model->facts().pace_name;
    if (auto listed = profile.check_pads(name); !listed) {
      return Error{listed.error().code,
                   "--pace-profile: " + listed.error().message + "; or use --no-payload-padding"};
    }
    drafter.padded_row_bytes = profile.activation_bytes(name);
  }
  return {};
}

Result<void> pace_proposers(server::SpeculationOptions& speculation, const DrafterFacts& facts,
                            const PaceProfile& profile) {
  constexpr auto kPlace = PaceProfile::Place::beside_target;
  // A drafter without weights takes almost no time on any hardware.
  if (facts.step_bytes > 0) {
    const auto listed = profile.check_paces(facts.pace_name, kPlace);
    if (!listed) return Error{listed.error().code, "--pace-profile: " + listed.error().message};
  }
  const Duration step = profile.draft_step(facts.pace_name, kPlace);
  speculation.decorate = [step](std::unique_ptr<server::SessionProposer> proposer) {
    return std::make_unique<PacedProposer>(std::move(proposer), step);
  };
  return {};
}

void wait_for_pace(Instant end) {
  if (const Duration late = Clock::now() - end; late > Duration::zero()) {
    std::cerr << std::string(kLatePass) + std::to_string(1e3 * seconds(late)) + " ms\n";
  }
  std::this_thread::sleep_until(end);
}

}  // namespace

void declare_lab_server(CLI::App& app, LabServerOptions& o) {
  server::declare_server_options(app, o.server);
  constexpr const char* kGroup = "Experiments";
  app.add_option("--pace-ms", o.pace_ms,
                 "Minimum time of a target pass, to run a small model at a large one's pace")
      ->type_name("MS")
      ->check(in_range(0u, 60'000u))
      ->group(kGroup);
  app.add_option("--pace-profile", o.pace_profile,
                 "Device profile (TOML) with the time of a pass by rows, instead of --pace-ms. "
                 "Pads activations to the size of the profile's model, if stated")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_flag("--no-payload-padding", o.no_payload_padding,
               "With --pace-profile: send the model's own activations without padding")
      ->group(kGroup);
}

Result<int> serve_in_lab(const LabServerOptions& o) {
  if (o.pace_ms > 0 && !o.pace_profile.empty()) {
    return usage_error(
        "--pace-ms and --pace-profile exclude each other; one of them may come from the "
        "environment or the configuration file");
  }
  PaceProfile profile;
  if (!o.pace_profile.empty()) {
    auto read = PaceProfile::read(o.pace_profile);
    if (!read) return Error{read.error().code, "--pace-profile " + read.error().message};
    profile = *std::move(read);
  }
  server::ServerOptions server = o.server;
  server.hooks = {.on_loaded = [&](server::ModelHost& host) -> Result<void> {
                    if (o.no_payload_padding) return {};
                    return pad_payloads(host, profile);
                  },
                  .set_speculation =
                      [&](server::SpeculationOptions& speculation, const DrafterFacts& facts) {
                        return pace_proposers(speculation, facts, profile);
                      },
                  .set_passes =
                      [&](server::PassLoopOptions& passes) {
                        if (o.pace_ms == 0 && !profile.paces_target()) return;
                        passes.pace = [least = std::chrono::milliseconds(o.pace_ms),
                                       profile](std::uint32_t rows) -> Duration {
                          return profile.paces_target() ? profile.target_pass(rows) : least;
                        };
                        passes.wait_until = wait_for_pace;
                      }};
  return server::serve_clients(server);
}

}  // namespace edgedraft::lab
