#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/commands/client_options.h"
#include "client/commands/client_parts.h"
#include "client/commands/report.h"
#include "client/commands/terminal_printer.h"
#include "client/devices/power_supply.h"
#include "client/engine/bundle_file.h"
#include "client/engine/engine.h"
#include "client/privacy/open_text.h"
#include "client/privacy/request_mask.h"
#include "shared/base/clock.h"
#include "shared/model/chat_template.h"

namespace edgedraft::client {

// Capabilities of standard input and output.
struct Terminal {
  bool output;  // output is a terminal
  bool input;   // input is a terminal
  bool styled;  // allows ANSI codes: no NO_COLOR, no TERM=dumb
};
Terminal look_at_terminal();

// True if the answer was cut because the reader of standard output is gone.
bool is_cut_by_reader(const GenerationOutcome& outcome);

// The parts that `run` and `chat` need for an answer: bundle, drafter, engine with one
// conversation, printer.
class TerminalConversation {
 public:
  // The config must outlive the result. Does not wait for the server.
  //
  // Errors    of the bundle and the TLS files
  static Result<std::unique_ptr<TerminalConversation>> open(const ClientSettings& config,
                                                            const Terminal& terminal);

  const BundleFile& bundle() const { return parts_->bundle(); }
  const ReportedConfig& reported_config();

  // Masks private text in the conversation, as set by the options (docs/privacy.md).
  //
  // Errors    of RequestMask; unsupported: it must stay on the device, which cannot answer alone
  Result<RequestMask::Outcome> hide(std::span<ChatMessage> messages);
  // Encodes text processed by hide().
  OpenTokens encode(const MarkedText& text, const RequestMask::Outcome& hidden) const;
  // Writes the answer to `prompt`, the whole conversation, as it arrives. An interrupt ends it
  // early. `prediction` is from text processed by hide(), too.
  Result<RunReport> answer(const OpenTokens& prompt, const RequestMask::Outcome& hidden,
                           std::vector<std::uint32_t> prediction = {});
  // Has the last answer checked if it was written offline and the server is back.
  Result<std::optional<RunReport>> settle();
  // Has the server sign the answer to `prompt`, on a connection of its own, and writes the receipt.
  //
  // Errors    unsupported for an answer that holds unverified tokens, or none; of sign_answer(); io
  Result<void> write_receipt(const std::filesystem::path& file, const OpenTokens& prompt,
                             const RunReport& report);
  // The link's counts over all answers.
  LinkStats link_stats() const { return conversation_->link_stats(); }

 private:
  TerminalConversation(std::unique_ptr<ClientParts> parts, const ClientSettings& config,
                       const Terminal& terminal);
  Result<void> start();
  // Waits for the engine. Empty if there was nothing to check.
  Result<std::optional<RunReport>> finish();

  std::unique_ptr<ClientParts> parts_;
  ReportedConfig reported_;
  TerminalPrinter printer_;
  std::optional<PrivacyGuard> privacy_;
  std::string told_private_;  // last note on private text
  EnergyMeter energy_;
  std::optional<double> energy_told_;  // energy of the last answer, including its checks
  bool has_asked_ = false;
  std::optional<Instant> first_asked_;  // start of the last answer, if it is the program's first
  std::unique_ptr<EngineConversation> conversation_;
};

}  // namespace edgedraft::client
