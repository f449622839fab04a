#include "client/commands/chat.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <vector>

#include "client/commands/answering.h"
#include "shared/program/interrupt.h"

namespace edgedraft {
namespace {

constexpr const char* kHelp =
    "/reset  forget the conversation\n"
    "/quit   end; so does Ctrl-D\n"
    "/help   this\n"
    "Ctrl-C cancels an answer; a second one, or one at the prompt, ends the program.\n";

// One conversation on standard input and output.
class Chat {
 public:
  Chat(Answering& answering, const ChatTemplate& chat_template, const Terminal& terminal,
       const ChatOptions& options)
      : answering_(answering),
        template_(chat_template),
        terminal_(terminal),
        json_(options.answer.json),
        system_(options.system) {
    reset();
  }

  Result<int> run() {
    std::string line;
    for (;;) {
      if (auto settled = settle(); !settled) return settled.error();
      clear_interrupt();
      if (terminal_.input && terminal_.output) std::cout << "> " << std::flush;
      if (!std::getline(std::cin, line) || line == "/quit") break;
      if (line == "/reset") {
        reset();
      } else if (line == "/help") {
        std::cerr << kHelp;
      } else if (!line.empty()) {
        if (auto taken = take_turn(line); !taken) return taken.error();
      }
    }
    if (!json_ && !answers_.empty()) say("in all: " + account(total()));
    return interrupted() ? kInterruptedExitCode : 0;
  }

 private:
  void reset() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({.role = "system", .content = system_});
  }

  Result<void> take_turn(const std::string& line) {
    // What was written offline may have been checked while the user wrote.
    if (auto settled = settle(); !settled) return settled;
    messages_.push_back({.role = "user", .content = line});
    std::vector<ChatMessage> sent = messages_;
    const auto hidden = answering_.hide(sent);
    if (!hidden) {
      // Nothing of it was sent. The user may say it in another way.
      std::cerr << hidden.error().message << "; the turn is left out" << std::endl;
      messages_.pop_back();
      return {};
    }
    const auto text = answering_.bundle().render_chat(template_, {.messages = sent});
    if (!text) return text.error();
    const auto report = answering_.answer(answering_.encode(*text, *hidden), *hidden);
    if (!report) return report.error();
    messages_.push_back({.role = "assistant", .content = report->text});
    answers_.push_back(report->stats);
    tell(*report);
    return {};
  }

  Result<void> settle() {
    const auto report = answering_.settle();
    if (!report) return report.error();
    if (!*report) return {};
    answers_.back() = (*report)->stats;
    if (!messages_.empty() && messages_.back().role == "assistant") {
      messages_.back().content = (*report)->text;
    }
    tell(**report);
    return {};
  }

  void tell(const AnswerReport& report) {
    if (json_) {
      std::cout << to_json(report, answering_.reported_config()) << std::endl;
    } else {
      say(account(report));
    }
  }

  void say(const std::string& line) const {
    (terminal_.output ? std::cout : std::cerr) << line << std::endl;
  }

  AnswerReport total() const {
    AnswerReport total;
    for (const GenerationStats& stats : answers_) total.stats += stats;
    total.link = answering_.link_stats();
    return total;
  }

  Answering& answering_;
  const ChatTemplate& template_;
  Terminal terminal_;
  bool json_;
  std::string system_;
  std::vector<ChatMessage> messages_;
  std::vector<GenerationStats> answers_;
};

}  // namespace

void declare_chat(CLI::App& app, ChatOptions& options) {
  app.add_option("--system", options.system, "System prompt, if the template knows one")
      ->type_name("TEXT");
  declare_answer_options(app, options.answer);
  declare_shown_answer_options(app, options.answer);
  app.footer(
      "Each line of standard input is a turn; /help lists the commands. If the server is away "
      "the\ndrafter answers alone (dim text); once it is back that text is checked and "
      "corrected.\nWith --json an answer that is corrected later is printed again.\n"
      "Example:\n"
      "  edgedraft chat --pin sha256:... --bundle drafter.gguf --system 'Answer briefly.'");
}

Result<int> run_chat(const ChatOptions& options) {
  if (options.answer.raw) {
    return Error{Errc::usage,
                 "--raw: a conversation needs a chat template; edgedraft run --raw continues a "
                 "text"};
  }
  const auto config = check_answer_options(options.answer);
  if (!config) return config.error();
  const Terminal terminal = look_at_terminal();
  const auto answering = Answering::open(*config, terminal);
  if (!answering) return answering.error();
  const auto chat_template = (*answering)->bundle().chat_template(config->chat_template);
  if (!chat_template) return chat_template.error();
  catch_interrupts();
  ignore_closed_pipes();
  return Chat(**answering, *chat_template, terminal, options).run();
}

}  // namespace edgedraft
