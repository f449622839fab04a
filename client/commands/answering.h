#pragma once

#include <iosfwd>
#include <memory>

#include "client/commands/answer_options.h"
#include "client/commands/answer_printer.h"
#include "client/commands/cycle_log.h"
#include "client/commands/report.h"
#include "client/devices/compute_device.h"
#include "client/devices/fallback_drafter.h"
#include "client/engine/bundle_file.h"
#include "shared/net/client_link.h"

namespace spdlog {
class logger;
}

namespace edgedraft {

// Standard output on a terminal, and what may be done to it.
struct Terminal {
  bool output;  // standard output is one
  bool input;   // standard input is one
  bool styled;  // ANSI codes are welcome: no NO_COLOR, no TERM=dumb
};
Terminal look_at_terminal();

// Everything that `run` and `chat` need for an answer, wired together: bundle, drafter, link,
// printer, generation.
class Answering {
 public:
  // Errors    of the bundle and the TLS files. The server is not waited for.
  static Result<std::unique_ptr<Answering>> open(const AnswerConfig& config,
                                                 const Terminal& terminal);

  const BundleFile& bundle() const { return bundle_; }
  const ReportedConfig& reported_config() const { return reported_; }

  // Writes the answer to `prompt`, the conversation so far, as it comes. Ends early where the user
  // interrupts.
  Result<AnswerReport> answer(std::span<const std::uint32_t> prompt);
  // Has the last answer checked, where it was written offline and the server is back.
  Result<std::optional<AnswerReport>> settle();
  // Of all answers.
  LinkStats link_stats() const { return link_->stats(); }

 private:
  Answering(BundleFile bundle, const AnswerConfig& config, const Terminal& terminal);
  void put_oracle_in_place(const OracleOptions& options);
  // Makes the drafter where it is asked for; where that is a GPU, with the CPU to go on with.
  Result<void> place_drafter(const AnswerConfig& config);
  void report_device(const ComputeDevice& device, const std::string& reason);
  Result<void> connect(const AnswerConfig& config);
  AnswerReport report(AnswerEnd end, const LinkStats& before);

  BundleFile bundle_;
  ReportedConfig reported_;
  std::shared_ptr<spdlog::logger> log_;
  PlacedDrafter placed_;
  AnswerPrinter printer_;
  std::unique_ptr<CycleLog> cycle_log_;  // null where none was asked for
  std::unique_ptr<ClientLink> link_;
  std::optional<Generation> generation_;
};

}  // namespace edgedraft
