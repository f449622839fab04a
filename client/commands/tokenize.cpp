#include "client/commands/tokenize.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "client/engine/bundle_file.h"
#include "shared/base/text_file.h"

namespace edgedraft {
namespace {

constexpr std::uint64_t kFileBytesMax = 1u << 30;

}  // namespace

void declare_tokenize(CLI::App& app, TokenizeOptions& options) {
  app.add_option("--model", options.model, "Any model or bundle")->type_name("FILE.gguf");
  app.add_option("-f,--file", options.file, "The text; - reads standard input")->type_name("FILE");
  app.add_flag("--parse-special,!--no-parse-special", options.parse_special,
               "Read the texts of control tokens as the tokens, as a chat template's are");
  app.footer(
      "Prints the ids on one line, without the beginning-of-text token. The texts of control "
      "tokens "
      "are\nread as text, as they are in a user's message (--no-parse-special, the default).\n"
      "Example:\n"
      "  echo -n 'What is 47 plus 38?' | edgedraft tokenize --model target.gguf -f -");
}

Result<int> run_tokenize(const TokenizeOptions& options) {
  if (options.model.empty()) return Error{Errc::usage, "which tokenizer? Give --model FILE.gguf"};
  if (options.file.empty()) {
    return Error{Errc::usage, "which text? Give -f FILE (- reads standard input)"};
  }
  const auto bundle = BundleFile::open(options.model, BundleUse::plain);
  if (!bundle) return bundle.error();
  const auto text = read_text(options.file, kFileBytesMax);
  if (!text) return text.error();
  const char* separator = "";
  const Special special = options.parse_special ? Special::parse : Special::plain;
  for (const std::uint32_t id : bundle->tokenizer().encode(*text, special)) {
    std::cout << separator << id;
    separator = " ";
  }
  std::cout << std::endl;
  return 0;
}

}  // namespace edgedraft
