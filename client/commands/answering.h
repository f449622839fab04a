#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>

#include "client/commands/answer_options.h"
#include "client/commands/answer_parts.h"
#include "client/commands/answer_printer.h"
#include "client/commands/report.h"
#include "client/devices/power_supply.h"
#include "client/engine/bundle_file.h"
#include "client/engine/engine.h"
#include "client/privacy/open_text.h"
#include "client/privacy/request_mask.h"
#include "shared/base/clock.h"
#include "shared/model/chat_template.h"

namespace edgedraft {

// Standard output on a terminal, and what may be done to it.
struct Terminal {
  bool output;  // standard output is one
  bool input;   // standard input is one
  bool styled;  // ANSI codes are welcome: no NO_COLOR, no TERM=dumb
};
Terminal look_at_terminal();

// The answer was cut because nobody reads standard output any more.
bool is_cut_by_reader(const AnswerOutcome& outcome);

// Everything that `run` and `chat` need for an answer, wired together: bundle, drafter, engine with
// one conversation, printer.
class Answering {
 public:
  // The config outlives it.
  //
  // Errors    of the bundle and the TLS files. The server is not waited for.
  static Result<std::unique_ptr<Answering>> open(const AnswerConfig& config,
                                                 const Terminal& terminal);

  const BundleFile& bundle() const { return parts_->bundle(); }
  const ReportedConfig& reported_config();

  // Takes private text out of the conversation, as the options say (docs/privacy.md).
  //
  // Errors    of RequestMask; unsupported: it has to stay, and nobody here can answer
  Result<RequestMask::Outcome> hide(std::span<ChatMessage> messages);
  // Tokens of a text that hide() has been over.
  OpenTokens encode(const MarkedText& text, const RequestMask::Outcome& hidden) const;
  // Writes the answer to `prompt`, the conversation so far, as it comes. Ends early if the user
  // interrupts.
  Result<AnswerReport> answer(const OpenTokens& prompt, const RequestMask::Outcome& hidden);
  // Has the last answer checked, if it was written offline and the server is back.
  Result<std::optional<AnswerReport>> settle();
  // The link's counts over all answers.
  LinkStats link_stats() const { return conversation_->link_stats(); }

 private:
  Answering(std::unique_ptr<AnswerParts> parts, const AnswerConfig& config,
            const Terminal& terminal);
  Result<void> start();
  // Waits for the engine. Nothing if there was nothing to check.
  Result<std::optional<AnswerReport>> finish();

  std::unique_ptr<AnswerParts> parts_;
  ReportedConfig reported_;
  AnswerPrinter printer_;
  std::optional<PrivacyGuard> privacy_;
  std::string told_private_;  // the last note of what was kept back
  EnergyMeter energy_;
  std::optional<double> energy_told_;  // of the last answer, with its checks so far
  bool has_asked_ = false;
  std::optional<Instant> first_asked_;  // when the last answer was, if it is the program's first
  std::unique_ptr<EngineConversation> conversation_;
};

}  // namespace edgedraft
