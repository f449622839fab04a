#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

#include "client/commands/commands.h"
#include "client/commands/written_file.h"
#include "shared/drafting/bundle_conversion.h"
#include "shared/model/convert/reduced_head.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_parts.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft::client {
namespace {

// "32768" or "32k", which is 32 * 1024.
Result<std::uint32_t> parse_head(const std::string& text) {
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  const bool is_thousands = end - rest == 1 && (*rest == 'k' || *rest == 'K');
  if (error == std::errc{} && count <= kVocabularyCountMax && (rest == end || is_thousands)) {
    if (is_thousands) count *= 1024;
    if (count > 0 && count <= kVocabularyCountMax) return static_cast<std::uint32_t>(count);
  }
  return usage_error("--head " + text + ": give a number of tokens such as 32768 or 32k");
}

Result<void> check(const SplitCommandOptions& o) {
  if (o.model.empty()) return usage_error("the model is missing: give its GGUF file");
  if (o.head.empty() && !o.texts.empty()) {
    return usage_error("--text requires --head N, the number of its tokens to keep");
  }
  std::error_code unknown;  // opening reports the error
  if (std::filesystem::is_directory(o.model, unknown)) {
    return usage_error(o.model.string() +
                       ": is a folder; make a GGUF file with `edgedraft convert` first");
  }
  std::vector<std::filesystem::path> read = gguf_files_of(o.model);
  read.insert(read.end(), o.texts.begin(), o.texts.end());
  return check_written(o.output, read, o.force);
}

// Tokens that the head keeps, with a line on what they cover; empty: all.
Result<std::vector<std::uint32_t>> kept_tokens(const SplitCommandOptions& o) {
  if (o.head.empty()) return std::vector<std::uint32_t>();
  const auto count = parse_head(o.head);
  if (!count) return count.error();
  const auto file = GgufFile::open(o.model);
  if (!file) return file.error();
  const auto tokenizer = Tokenizer::read(*file);
  if (!tokenizer) return in_file(o.model, tokenizer.error());
  auto chosen = choose_draft_tokens(
      *tokenizer,
      {.texts = o.texts, .count = *count, .text_option = "--text", .count_option = "--head"});
  if (!chosen) return chosen.error();
  if (o.texts.empty()) {
    std::cerr << fmt::format(
        "the head keeps {} of {} tokens, the first in the vocabulary; --text counts them instead\n",
        chosen->tokens.size(), tokenizer->vocabulary_count());
  } else {
    std::cerr << fmt::format("{} of {} tokens cover {:.2f} % of the text\n", chosen->tokens.size(),
                             tokenizer->vocabulary_count(), chosen->covered_percent());
  }
  return std::move(chosen->tokens);
}

}  // namespace

void declare_split(CLI::App& app, SplitCommandOptions& o) {
  app.add_option("model", o.model,
                 "GGUF file of a model with a block for multi-token prediction (MTP), such as "
                 "Qwen3.5; any part of a split model. `edgedraft models FILE` says if it has one")
      ->type_name("MODEL.gguf");
  app.add_option("-o,--output", o.output, "Drafter's bundle to write")->type_name("FILE.gguf");
  app.add_option("--head", o.head,
                 "Let the drafter propose only N tokens: control tokens and the most frequent ones "
                 "of --text, or without it the first of the vocabulary, which BPE lists by "
                 "frequency. k stands for 1024. A smaller head drafts faster and does not change "
                 "answers [all tokens]")
      ->type_name("N");
  app.add_option("--text", o.texts,
                 "Text whose tokens are counted for --head; it should resemble the expected "
                 "answers; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--force", o.force, "Replace the file if it exists");
  app.footer(
      "The model itself stays as it is. Server and client load the bundle with --bundle.\n"
      "Examples:\n"
      "  edgedraft split qwen3.5-4b.gguf -o drafter.gguf\n"
      "  edgedraft split qwen3.5-4b.gguf -o small-head.gguf --head 32k --text answers.txt\n"
      "  edgedraft-server --model qwen3.5-4b.gguf --bundle drafter.gguf");
}

Result<int> run_split(const SplitCommandOptions& o) {
  if (auto right = check(o); !right) return right.error();
  auto tokens = kept_tokens(o);
  if (!tokens) return tokens.error();
  const auto done =
      split_drafter({.model = o.model, .output = o.output, .draft_tokens = std::move(*tokens)});
  if (!done) return done.error();
  std::cerr << o.output.string() << ": " << std::filesystem::file_size(o.output) << " bytes\n";
  return 0;
}

}  // namespace edgedraft::client
