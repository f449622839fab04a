#include "client/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <vector>

#include "client/commands/terminal_conversation.h"
#include "shared/base/text_file.h"
#include "shared/program/interrupt.h"

namespace edgedraft::client {
namespace {

// Larger than any context.
constexpr std::uint64_t kPromptBytesMax = 16u << 20;

Result<std::string> read_prompt(const RunOptions& options) {
  if (options.prompt && !options.file.empty()) {
    return Error{Errc::usage, "-p and -f exclude each other: give the prompt once"};
  }
  if (options.prompt) return *options.prompt;
  if (options.file.empty()) {
    return Error{
        Errc::usage,
        "the prompt is missing: give it as 'TEXT', or with -f FILE (- reads standard input)"};
  }
  auto text = read_text(options.file, kPromptBytesMax);
  if (!text) return Error{text.error().code, "-f " + text.error().message};
  return text;
}

Result<std::string> read_prediction(const RunOptions& options) {
  if (options.prediction.empty()) return std::string();
  if (options.answer.plain) {
    return Error{Errc::usage, "--plain proposes nothing: remove --prediction"};
  }
  auto text = read_text(options.prediction, kPromptBytesMax);
  if (!text) return Error{text.error().code, "--prediction " + text.error().message};
  return text;
}

Result<MarkedText> render(const BundleFile& bundle, const ClientSettings& config,
                          const ChatMessage& message) {
  if (config.raw) return MarkedText::foreign(message.content);
  const auto chat = bundle.chat_template(config.chat_template);
  if (!chat) return chat.error();
  return bundle.render_chat(*chat, {.messages = std::span(&message, 1)});
}

}  // namespace

void declare_run(CLI::App& app, RunOptions& options) {
  app.add_option("prompt,-p,--prompt", options.prompt, "The prompt")->type_name("TEXT");
  app.add_option("-f,--file", options.file, "File with the prompt; - reads standard input")
      ->type_name("FILE");
  app.add_option(
         "--prediction", options.prediction,
         "File with a text that the answer repeats in large parts, such as one to edit; its "
         "passages are proposed to the target")
      ->type_name("FILE");
  app.add_option("--receipt", options.receipt,
                 "Have the server sign the answer, and write the receipt there for `edgedraft "
                 "verify`; unverified text has none")
      ->type_name("FILE");
  app.add_flag("--raw", options.answer.config.raw, "Continue the text without a chat template");
  declare_answer_options(app, options.answer);
  declare_shown_answer_options(app, options.answer);
  app.footer(
      "Examples:\n"
      "  edgedraft run --pin sha256:... --bundle drafter.gguf 'What is 47 plus 38?'\n"
      "  edgedraft run --bundle drafter.gguf -f - --json < prompt.txt\n"
      "  edgedraft run --plain --bundle target.gguf --raw -p 'Once upon a time'\n"
      "Every option can be set in the environment (EDGEDRAFT_MAX_TOKENS for --max-tokens) and in\n"
      "the TOML file of --config (max-tokens = 64).\n"
      "Standard output receives text once it is final, and standard error the statistics. On a\n"
      "terminal, standard output receives both.\n"
      "Exit status:\n"
      "  0    success, including answers that the drafter wrote offline\n"
      "  1    any other error, such as a missing file\n"
      "  2    invalid options\n"
      "  3    server unreachable, and no local drafter can answer (with --plain, for example)\n"
      "  4    server not trusted, or access denied\n"
      "  5    model file invalid, unlike the server's, or too large for --memory\n"
      "  130  Ctrl-C or SIGTERM");
}

Result<int> run_once(const RunOptions& options) {
  const char* const reader = options.file == "-" ? "for the prompt (-f -)" : "";
  if (auto right = check_standard_input(options.answer, reader); !right) return right.error();
  const auto prompt = read_prompt(options);
  if (!prompt) return prompt.error();
  const auto prediction = read_prediction(options);
  if (!prediction) return prediction.error();
  const Error empty{Errc::usage, "the prompt is empty: give some text with -p or -f"};
  if (!options.answer.config.raw && prompt->find_first_not_of(" \t\r\n") == prompt->npos)
    return empty;
  const auto config = check_answer_options(options.answer);
  if (!config) return config.error();
  const Terminal terminal = look_at_terminal();
  const auto conversation = TerminalConversation::open(*config, terminal);
  if (!conversation) return conversation.error();
  std::vector<ChatMessage> texts = {{.role = "user", .content = *prompt},
                                    {.role = "user", .content = *prediction}};
  const auto hidden = (*conversation)->hide(texts);
  if (!hidden) return hidden.error();
  const auto rendered = render((*conversation)->bundle(), *config, texts.front());
  if (!rendered) return rendered.error();
  OpenTokens tokens = (*conversation)->encode(*rendered, *hidden);
  // An empty text is encoded as the start token alone, which is a valid prompt.
  if (config->raw && tokens.tokens.empty()) {
    tokens.tokens = (*conversation)->bundle().encode_raw("");
  }
  if (tokens.tokens.empty()) return empty;

  catch_interrupts();
  ignore_closed_pipes();
  const auto predicted =
      (*conversation)->bundle().tokenizer().encode(MarkedText::foreign(texts.back().content));
  const auto report = (*conversation)->answer(tokens, *hidden, predicted);
  if (!report) return report.error();
  if (is_cut_by_reader(*report)) end_by_closed_pipe();
  if (config->json) {
    std::cout << to_json(*report, (*conversation)->reported_config()) << std::endl;
  } else {
    (terminal.output ? std::cout : std::cerr) << account(*report) << std::endl;
  }
  if (!options.receipt.empty() && !interrupted()) {
    const auto written = (*conversation)->write_receipt(options.receipt, tokens, *report);
    if (!written) return written.error();
  }
  // The interrupt may have cut only the wait for a check, leaving the text unchecked.
  return interrupted() ? kInterruptedExitCode : 0;
}

}  // namespace edgedraft::client
