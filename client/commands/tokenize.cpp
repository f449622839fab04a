#include "client/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "client/engine/bundle_file.h"
#include "shared/base/text_file.h"

namespace edgedraft::client {
namespace {

Result<std::vector<std::uint32_t>> encode(const BundleFile& bundle, const TokenizeOptions& options,
                                          const std::string& text) {
  if (!options.chat) {
    return bundle.tokenizer().encode(text, options.parse_special ? Special::parse : Special::plain);
  }
  const auto chat = bundle.chat_template({});
  if (!chat) return chat.error();
  const ChatMessage message{.role = "user", .content = text};
  return bundle.encode_chat(*chat, std::span(&message, 1));
}

}  // namespace

void declare_tokenize(CLI::App& app, TokenizeOptions& options) {
  app.add_option("--model", options.model, "Any model or bundle")->type_name("FILE.gguf");
  app.add_option("-f,--file", options.file, "File with the text; - reads standard input")
      ->type_name("FILE");
  app.add_flag("--parse-special,!--no-parse-special", options.parse_special,
               "Encode the texts of control tokens as control tokens, as in a chat template");
  app.add_flag("--chat", options.chat,
               "Encode the text as a user message in the model's chat template, up to the start of "
               "the answer");
  app.footer(
      "Prints the ids on one line, without the beginning-of-text token; --chat adds it if the\n"
      "model's chats begin with it. By default (--no-parse-special), texts of control tokens are\n"
      "encoded as plain text, as in a user message.\n"
      "Example:\n"
      "  echo -n 'What is 47 plus 38?' | edgedraft tokenize --model target.gguf -f -");
}

Result<int> run_tokenize(const TokenizeOptions& options) {
  if (options.model.empty())
    return Error{Errc::usage, "the tokenizer is missing: give --model FILE.gguf"};
  if (options.file.empty()) {
    return Error{Errc::usage, "the text is missing: give -f FILE (- reads standard input)"};
  }
  if (options.chat && options.parse_special) {
    return Error{
        Errc::usage,
        "--parse-special and --chat exclude each other: a user message holds no control tokens"};
  }
  const auto bundle = BundleFile::open(options.model, BundleUse::plain);
  if (!bundle) return bundle.error();
  const auto text = read_text(options.file, kWholeTextBytesMax);
  if (!text) return text.error();
  const auto ids = encode(*bundle, options, *text);
  if (!ids) return ids.error();
  const char* separator = "";
  for (const std::uint32_t id : *ids) {
    std::cout << separator << id;
    separator = " ";
  }
  std::cout << std::endl;
  return 0;
}

}  // namespace edgedraft::client
