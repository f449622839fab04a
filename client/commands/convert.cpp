#include "client/commands/commands.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

#include "client/commands/written_file.h"
#include "shared/base/printable.h"
#include "shared/drafting/bundle_conversion.h"
#include "shared/model/convert/reduced_head.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_parts.h"
#include "shared/model/tensor_shapes.h"
#include "shared/model/tokenizer/pre_tokenizer_rules.h"
#include "shared/program/validators.h"

namespace edgedraft::client {
namespace {

std::string type_names() {
  std::string names;
  for (const DType type : kDTypes) {
    if (is_writable(type)) names += (names.empty() ? "" : ", ") + std::string(traits(type).name);
  }
  return names;
}

Result<void> check_pre(const ConvertCommandOptions& o) {
  if (!o.pre) return {};
  if (o.bundle || o.draft_vocab) {
    return usage_error(
        "--pre: a bundle has its target's tokenizer; convert the target with --pre first");
  }
  if (!find_pre_tokenizer_rules(*o.pre)) {
    return usage_error("--pre " + *o.pre + ": expected one of " + pre_tokenizer_names());
  }
  return {};
}

Result<void> check_drafting(const ConvertCommandOptions& o) {
  if (o.bundle && o.drafter.empty()) {
    return usage_error("--bundle: give the drafter with --drafter DIR");
  }
  if (!o.bundle && !o.drafter.empty()) {
    return usage_error("--drafter requires --bundle: together they make a bundle for a target");
  }
  if (!o.draft_vocab && !o.corpus.empty()) {
    return usage_error("--corpus requires --draft-vocab N, the number of its tokens to keep");
  }
  if (!o.draft_vocab) return {};
  if (o.corpus.empty()) {
    return usage_error(
        "--draft-vocab requires --corpus FILE, a text that resembles the expected answers");
  }
  if (!o.bundle && o.type) {
    return usage_error("--type: --draft-vocab keeps the types of the bundle; remove it");
  }
  return {};
}

Result<std::optional<DType>> check(const ConvertCommandOptions& o) {
  if (o.input.empty()) return usage_error("the input is missing: give a folder or a GGUF file");
  std::error_code error;
  if (!std::filesystem::exists(o.input, error)) {
    return Error{Errc::io,
                 o.input.string() + ": " + (error ? error.message() : "no such file or folder")};
  }
  if (auto right = check_pre(o); !right) return right.error();
  if (auto right = check_drafting(o); !right) return right.error();
  std::vector<std::filesystem::path> read = gguf_files_of(o.input);
  read.insert(read.end(), {o.drafter, o.corpus});
  if (auto right = check_written(o.output, read, o.force); !right) return right.error();
  if (!o.type) return std::optional<DType>();
  const auto type = dtype_from_name(*o.type);
  if (!type || !is_writable(*type)) {
    return usage_error("--type " + *o.type + ": expected one of " + type_names());
  }
  return type;
}

// Counts corpus tokens, and reports how much of the corpus the chosen tokens cover.
Result<std::vector<std::uint32_t>> choose_tokens(const ConvertCommandOptions& o) {
  if (!o.draft_vocab) return std::vector<std::uint32_t>();
  if (std::filesystem::is_directory(o.input)) {
    return usage_error(
        "--draft-vocab needs a drafter: give a bundle, or a target's GGUF file with --bundle "
        "--drafter DIR");
  }
  const auto file = GgufFile::open(o.input);
  if (!file) return file.error();
  const auto tokenizer = Tokenizer::read(*file);
  if (!tokenizer) return in_file(o.input, tokenizer.error());
  auto chosen = choose_draft_tokens(
      *tokenizer, {.texts = {o.corpus}, .count = static_cast<std::uint32_t>(*o.draft_vocab)});
  if (!chosen) return chosen.error();
  std::cerr << fmt::format("{} of {} tokens cover {:.2f} % of the corpus\n", chosen->tokens.size(),
                           tokenizer->vocabulary_count(), chosen->covered_percent());
  return std::move(chosen->tokens);
}

Result<void> write_output(const ConvertCommandOptions& o, std::optional<DType> type,
                          std::vector<std::uint32_t> draft_tokens) {
  if (o.bundle) {
    return make_bundle({.target = o.input,
                        .drafter = o.drafter,
                        .output = o.output,
                        .type = type,
                        .draft_tokens = std::move(draft_tokens)});
  }
  if (o.draft_vocab) {
    return reduce_bundle(
        {.bundle = o.input, .output = o.output, .draft_tokens = std::move(draft_tokens)});
  }
  return convert_model_or_bundle({.input = o.input,
                                  .output = o.output,
                                  .type = type,
                                  .pre = o.pre,
                                  .on_notice = [](const std::string& what) {
                                    std::cerr << printable(what, Lines::one) << '\n';
                                  }});
}

}  // namespace

void declare_convert(CLI::App& app, ConvertCommandOptions& o) {
  app.add_option("input", o.input,
                 "Hugging Face folder or GGUF file (any part of a split model); with --bundle: the "
                 "target's GGUF file")
      ->type_name("HF_DIR|GGUF");
  app.add_option("-o,--output", o.output, "GGUF file to write")->type_name("FILE.gguf");
  app.add_option("--type", o.type,
                 "Type of the matrices: " + type_names() +
                     " [unchanged from a GGUF file; f16 from a folder]")
      ->type_name("TYPE");
  app.add_option("--pre", o.pre,
                 "Pre-tokenizer of a byte-level BPE tokenizer, by llama.cpp's name [unchanged from "
                 "a GGUF file; the one that fits a folder's tokenizer.json]")
      ->type_name("NAME");
  // Not configurable: in other commands these options take a value, which an options file may set.
  app.add_flag("--bundle", o.bundle, "Make a bundle: a drafter for this target")
      ->configurable(false);
  app.add_option(
         "--drafter", o.drafter,
         "Drafter: a Mixture of Attentions, EAGLE, HASS, EAGLE-3 or MEDUSA checkpoint, or a small "
         "model with the target's tokenizer")
      ->type_name("DIR|GGUF")
      ->configurable(false);
  app.add_option("--draft-vocab", o.draft_vocab,
                 "Let the drafter propose only control tokens and the N most frequent tokens of "
                 "--corpus. A smaller head drafts faster and does not change answers")
      ->type_name("N")
      ->check(in_range(std::int64_t{1}, std::int64_t{kVocabularyCountMax}));
  app.add_option("--corpus", o.corpus,
                 "Text whose tokens are counted; it should resemble the expected answers")
      ->type_name("FILE");
  app.add_flag("--force", o.force, "Replace the file if it exists");
  app.footer(
      "Examples:\n"
      "  edgedraft convert ~/models/TinyLlama -o tinyllama.gguf --type q8_0\n"
      "  edgedraft convert big-00001-of-00003.gguf -o big.gguf\n"
      "  edgedraft convert tinyllama.gguf --bundle --drafter ~/models/drafter -o drafter.gguf\n"
      "  edgedraft convert tinyllama.gguf --bundle --drafter ~/models/drafter --draft-vocab 8192 "
      "--corpus answers.txt -o drafter-8k.gguf\n"
      "  edgedraft convert drafter.gguf --draft-vocab 8192 --corpus answers.txt -o "
      "drafter-8k.gguf");
}

Result<int> run_convert(const ConvertCommandOptions& o) {
  const auto type = check(o);
  if (!type) return type.error();
  auto draft_tokens = choose_tokens(o);
  if (!draft_tokens) return draft_tokens.error();
  const auto done = write_output(o, *type, std::move(*draft_tokens));
  if (!done) return done.error();
  std::cerr << o.output.string() << ": " << std::filesystem::file_size(o.output) << " bytes\n";
  return 0;
}

}  // namespace edgedraft::client
