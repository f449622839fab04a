#include "client/commands/commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>
#include <vector>

#include "client/commands/terminal_conversation.h"
#include "client/text/thoughts.h"
#include "shared/base/ascii.h"
#include "shared/base/printable.h"
#include "shared/program/interrupt.h"
#include "shared/program/options.h"

namespace edgedraft::client {
namespace {

constexpr const char* kHelp =
    "/reset  forget the conversation\n"
    "/quit   quit, as Ctrl-D does\n"
    "/help   print this help\n"
    "Ctrl-C cancels an answer. A second Ctrl-C, or Ctrl-C at the prompt, quits, as SIGTERM does.\n";

// True if the next turn may succeed. It may be shorter, the link may be back, or no private text
// may require the drafter alone.
bool another_turn_may_do(Errc code) {
  return code == Errc::context_full || code == Errc::link_down || code == Errc::timed_out ||
         code == Errc::refused || code == Errc::unsupported;
}

// True for '/' and a word, as opposed to a path or text that begins with '/'.
bool is_command(const std::string& line) {
  return line.starts_with('/') && line.size() > 1 && is_ascii_letter(line[1]) &&
         line.find_first_of("/ ", 1) == line.npos;
}

// One conversation on standard input and output.
class Chat {
 public:
  Chat(TerminalConversation& conversation, const ChatTemplate& chat_template,
       const Terminal& terminal, const ChatOptions& options)
      : conversation_(conversation),
        template_(chat_template),
        terminal_(terminal),
        json_(options.answer.config.json),
        awaits_check_(options.answer.config.generation.resync == wire::ResyncPolicy::check),
        system_(options.system) {
    reset();
  }

  Result<int> run() {
    std::string line;
    for (;;) {
      // The interrupt that ended the answer must not end its check.
      clear_interrupt();
      if (auto settled = settle(); !settled) return settled.error();
      if (interrupted()) break;
      if (terminal_.input && terminal_.output) std::cout << "> " << std::flush;
      if (!std::getline(std::cin, line) || line == "/quit") break;
      if (line == "/reset") {
        reset();
      } else if (line == "/help") {
        std::cerr << kHelp;
      } else if (is_command(line)) {
        std::cerr << "unknown command '" << printable(line, Lines::one) << "'; the commands are:\n"
                  << kHelp;
      } else if (!line.empty()) {
        if (auto taken = take_turn(line); !taken) return taken.error();
      }
    }
    if (is_unchecked_) std::cerr << "the last answer remains unchecked" << std::endl;
    if (!json_ && !answers_.empty()) say("total: " + account(total()));
    if (interrupted()) return kInterruptedExitCode;
    // A user at a terminal has seen the failure.
    return failure_ && !terminal_.input ? exit_code_of(*failure_) : 0;
  }

 private:
  void reset() {
    messages_.clear();
    may_settle_ = is_unchecked_ = false;
    if (!system_.empty()) messages_.push_back({.role = "system", .content = system_});
  }

  Result<void> take_turn(const std::string& line) {
    // Offline text may have been checked while the user typed.
    if (auto settled = settle(); !settled) return settled;
    if (interrupted()) return {};
    messages_.push_back({.role = "user", .content = line});
    std::vector<ChatMessage> sent = messages_;
    const auto hidden = conversation_.hide(sent);
    if (!hidden) {
      // The turn was not sent; the user may rephrase it.
      leave_out_turn(hidden.error());
      return {};
    }
    const auto text = conversation_.bundle().render_chat(template_, {.messages = sent});
    if (!text) return text.error();
    const OpenTokens prompt = conversation_.encode(*text, *hidden);
    if (prompt.tokens.empty()) {
      return Error{Errc::usage,
                   "the prompt is empty: the chat template writes nothing for these messages"};
    }
    const auto report = conversation_.answer(prompt, *hidden);
    if (!report) {
      if (!another_turn_may_do(report.error().code)) return report.error();
      if (!failure_) failure_ = report.error().code;
      may_settle_ = false;
      leave_out_turn(report.error());
      return {};
    }
    if (is_cut_by_reader(*report)) end_by_closed_pipe();
    messages_.push_back({.role = "assistant", .content = std::string(content_of(report->text))});
    answers_.push_back(report->stats);
    may_settle_ = true;
    note_unchecked(*report);
    tell(*report);
    return {};
  }

  void note_unchecked(const RunReport& report) {
    is_unchecked_ =
        awaits_check_ && report.end != GenerationEnd::cancelled &&
        std::ranges::find(report.provenance, Provenance::offline) != report.provenance.end();
  }

  void leave_out_turn(const Error& error) {
    messages_.pop_back();
    if (json_) std::cout << to_json(error) << std::endl;
    const bool has_others = !messages_.empty() && messages_.back().role == "assistant";
    const bool reset_helps = error.code == Errc::context_full && has_others;
    tell(error, std::string("the turn is dropped") +
                    (reset_helps ? "; /reset starts a new conversation" : ""));
  }

  Result<void> settle() {
    if (!may_settle_) return {};
    const auto report = conversation_.settle();
    clear_interrupt();  // it was meant for the check
    if (!report) {
      if (!another_turn_may_do(report.error().code)) return report.error();
      tell(report.error(), "the answer above remains unchecked");
      return {};
    }
    if (!*report) return {};
    answers_.back() = (*report)->stats;
    note_unchecked(**report);
    if (!messages_.empty() && messages_.back().role == "assistant") {
      messages_.back().content = content_of((*report)->text);
    }
    tell(**report);
    return {};
  }

  void tell(const RunReport& report) {
    if (json_) {
      std::cout << to_json(report, conversation_.reported_config()) << std::endl;
    } else {
      say(account(report));
    }
  }

  void tell(const Error& error, const std::string& what_follows) const {
    std::cerr << error.message << "; " << what_follows << std::endl;
  }

  void say(const std::string& line) const {
    (terminal_.output ? std::cout : std::cerr) << line << std::endl;
  }

  RunReport total() const {
    RunReport total;
    for (const GenerationStats& stats : answers_) total.stats += stats;
    total.link = conversation_.link_stats();
    return total;
  }

  TerminalConversation& conversation_;
  const ChatTemplate& template_;
  Terminal terminal_;
  bool json_;
  bool awaits_check_;  // text written offline is to be checked
  std::string system_;
  std::vector<ChatMessage> messages_;
  std::vector<GenerationStats> answers_;
  bool may_settle_ = false;      // the last turn has an answer and was kept
  bool is_unchecked_ = false;    // the last answer has text that the server has not checked
  std::optional<Errc> failure_;  // error of the first failed turn that was sent
};

}  // namespace

void declare_chat(CLI::App& app, ChatOptions& options) {
  app.add_option("--system", options.system, "System prompt")->type_name("TEXT");
  declare_answer_options(app, options.answer);
  declare_shown_answer_options(app, options.answer);
  app.footer(
      "Each line of standard input is one turn; /help lists the commands. If the server is\n"
      "unreachable, the drafter answers alone (dim text). When the server returns, it checks and\n"
      "corrects that text.\n"
      "With --json, a corrected answer is printed again, and a failed turn prints an object with\n"
      "its error.\n"
      "Ctrl-C cancels an answer, which is then neither checked nor continued. A second Ctrl-C, or\n"
      "Ctrl-C at the prompt, quits with status 130. SIGTERM cancels the answer and quits.\n"
      "Example:\n"
      "  edgedraft chat --pin sha256:... --bundle drafter.gguf --system 'Answer briefly.'");
}

Result<int> run_chat(const ChatOptions& options) {
  const Terminal terminal = look_at_terminal();
  // A user at a terminal can type a secret first. A file or pipe is read ahead, so it cannot hold
  // one.
  const char* const reader = terminal.input ? "" : "for the turns";
  if (auto right = check_standard_input(options.answer, reader); !right) return right.error();
  const auto config = check_answer_options(options.answer);
  if (!config) return config.error();
  const auto conversation = TerminalConversation::open(*config, terminal);
  if (!conversation) return conversation.error();
  const auto chat_template = (*conversation)->bundle().chat_template(config->chat_template);
  if (!chat_template) return chat_template.error();
  catch_interrupts();
  ignore_closed_pipes();
  return Chat(**conversation, *chat_template, terminal, options).run();
}

}  // namespace edgedraft::client
