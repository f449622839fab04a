#include "client/commands/commands.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>
#include <utility>

#include "client/commands/corpus_text.h"
#include "client/commands/text_perplexity.h"
#include "client/commands/written_file.h"
#include "shared/base/progress.h"
#include "shared/base/random.h"
#include "shared/drafting/index/index_builder.h"
#include "shared/model/fingerprint.h"
#include "shared/model/gguf_parts.h"
#include "shared/model/tokenizer.h"
#include "shared/program/validators.h"
#include "shared/runtime/decoder.h"

namespace edgedraft::client {
namespace {

Result<void> check(const IndexCommandOptions& o) {
  if (o.corpus.empty()) return usage_error("the texts are missing: give one or more files");
  if (o.model.empty()) {
    return usage_error(
        "the model is missing: give --model FILE.gguf, the target or any file with its tokenizer");
  }
  if (o.keep && !o.keep_tokens) {
    return usage_error("--keep requires --keep-tokens N, the number of tokens to keep");
  }
  std::vector<std::filesystem::path> read = gguf_files_of(o.model);
  read.insert(read.end(), o.corpus.begin(), o.corpus.end());
  return check_written(o.output, read, o.force);
}

// A candidate document, in the file of all documents.
struct RankedDocument {
  std::uint64_t first;
  std::uint32_t count;
  float rank;  // the lowest are kept
};

// Returns the best documents that fit, in corpus order. One that does not fit is skipped.
std::vector<RankedDocument> best_of(std::vector<RankedDocument> candidates,
                                    std::uint64_t tokens_max) {
  std::ranges::stable_sort(candidates, {}, &RankedDocument::rank);
  std::vector<RankedDocument> kept;
  std::uint64_t tokens_left = tokens_max;
  for (const RankedDocument& candidate : candidates) {
    if (candidate.count > tokens_left) continue;
    tokens_left -= candidate.count;
    kept.push_back(candidate);
  }
  std::ranges::sort(kept, {}, &RankedDocument::first);
  return kept;
}

// Reads all texts as tokens.
Result<void> tokenize(const IndexCommandOptions& o, const Tokenizer& tokenizer,
                      const std::function<Result<void>(std::span<const std::uint32_t>)>& give) {
  std::uint64_t bytes = 0;
  for (const std::filesystem::path& file : o.corpus) {
    std::error_code ignored;  // the reader reports the error
    const auto size = std::filesystem::file_size(file, ignored);
    if (!ignored) bytes += size;
  }
  Progress progress("reading", bytes);
  const CorpusReader reader{.split = o.split == "lines"        ? CorpusSplit::lines
                                     : o.split == "paragraphs" ? CorpusSplit::paragraphs
                                                               : CorpusSplit::file,
                            .field = o.field,
                            .advance = [&](std::uint64_t n) { progress.advance(n); }};
  for (const std::filesystem::path& file : o.corpus) {
    const auto read = read_documents(file, reader, [&](std::string_view text) {
      return give(tokenizer.encode(text, Special::plain));
    });
    if (!read) return read.error();
  }
  return {};
}

// Perplexity of each document by a model, or a random number.
Result<void> rank(const IndexCommandOptions& o, const GgufFile& file,
                  std::span<const std::uint32_t> tokens, std::vector<RankedDocument>& candidates) {
  if (o.keep == "random") {
    Random random(o.seed);
    for (RankedDocument& candidate : candidates)
      candidate.rank = static_cast<float>(random.uniform());
    return {};
  }
  const auto model = read_decoder(file);
  if (!model) return in_file(o.model, model.error());
  const auto tokenizer = Tokenizer::read(file);
  if (!tokenizer) return in_file(o.model, tokenizer.error());
  const auto bos = tokenizer->add_bos() || o.bos ? tokenizer->bos_id() : std::nullopt;
  if (o.bos && !bos) return usage_error("--bos: the tokenizer has no beginning-of-text token");
  const auto window = static_cast<std::uint32_t>(o.window);
  if (window > model->config.context_length) {
    return usage_error("--window: expected at most the model's context of " +
                       std::to_string(model->config.context_length) + " tokens");
  }
  const auto backend = make_cpu_backend({.threads = static_cast<std::uint32_t>(o.threads)});
  Decoder decoder(*backend, model->config, model->tensors, window);
  Progress progress("measuring", tokens.size());
  for (RankedDocument& candidate : candidates) {
    const PerplexityMeter meter =
        measure_document(decoder, tokens.subspan(candidate.first, candidate.count), bos);
    candidate.rank = static_cast<float>(meter.perplexity());
    progress.advance(candidate.count);
  }
  return {};
}

// Adds the selected documents and reports their number.
Result<void> add_refined(const IndexCommandOptions& o, const GgufFile& file,
                         const Tokenizer& tokenizer, IndexBuilder& builder) {
  auto corpus = ScratchFile::create(o.output);
  if (!corpus) return corpus.error();
  std::vector<RankedDocument> candidates;
  const auto read = tokenize(o, tokenizer, [&](std::span<const std::uint32_t> document) {
    // A single token has no perplexity, and nothing to copy.
    if (document.size() < 2) return Result<void>();
    candidates.push_back({.first = corpus->count(),
                          .count = static_cast<std::uint32_t>(document.size()),
                          .rank = 0.0f});
    return corpus->append(document);
  });
  if (!read) return read.error();
  const auto tokens = corpus->numbers();
  if (!tokens) return tokens.error();
  if (auto ranked = rank(o, file, *tokens, candidates); !ranked) return ranked.error();
  const std::size_t all = candidates.size();
  const auto kept = best_of(std::move(candidates), static_cast<std::uint64_t>(*o.keep_tokens));
  if (kept.empty())
    return usage_error("--keep-tokens: every document is longer; give a larger number");
  for (const RankedDocument& document : kept) {
    if (auto added = builder.add(tokens->subspan(document.first, document.count)); !added) {
      return added.error();
    }
  }
  std::cerr << "kept " << kept.size() << " of " << all << " documents";
  if (o.keep != "random") {
    const float highest = std::ranges::max_element(kept, {}, &RankedDocument::rank)->rank;
    std::cerr << fmt::format(", with a perplexity of at most {:.2f}", highest);
  }
  std::cerr << '\n';
  return {};
}

void print(const std::filesystem::path& path, const IndexFacts& facts) {
  std::cerr << path.string() << ": " << facts.suffix_count << " tokens in "
            << facts.token_count - facts.suffix_count << " documents, "
            << (facts.is_public ? "declared public, " : "not declared public, ")
            << std::filesystem::file_size(path) << " bytes\n";
}

Result<int> check_index(const IndexCommandOptions& o) {
  if (!o.corpus.empty() || !o.output.empty() || o.is_public || o.keep_tokens || o.keep) {
    return usage_error(
        "--check only reads an index: remove the texts, -o, --public, --keep-tokens and --keep");
  }
  const auto index = CorpusIndex::open(o.check);
  if (!index) return index.error();
  if (auto whole = index->check_content(); !whole) return in_file(o.check, whole.error());
  print(o.check, index->facts());
  return 0;
}

}  // namespace

void declare_index(CLI::App& app, IndexCommandOptions& o) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* what) {
    return app.add_option(name, value, what)->type_name(type);
  };
  add("texts", o.corpus, "FILE...",
      "Plain text files, or JSON Lines files (*.jsonl) with one document per line");
  add("--model", o.model, "FILE.gguf",
      "Model whose tokenizer encodes the texts: the target, or any file with its tokenizer");
  add("-o,--output", o.output, "FILE", "Index to write");
  app.add_flag("--public", o.is_public,
               "Declare the texts public. `run`, `chat` and `serve` accept only public indexes, "
               "because drafts are sent to the server");
  add("--split", o.split, "HOW",
      "How plain text is split into documents: file, lines, paragraphs (separated by empty lines). "
      "Drafts never continue past the end of a document. Documents over 64 KiB are split further")
      ->check(CLI::IsMember({"file", "lines", "paragraphs"}))
      ->capture_default_str();
  add("--field", o.field, "NAME", "Member of the JSON objects that holds the text")
      ->capture_default_str();
  add("--keep-tokens", o.keep_tokens, "N",
      "Keep only some documents, with at most N tokens in total")
      ->check(in_range(std::int64_t{1}, std::int64_t{1} << 32));
  add("--keep", o.keep, "WHICH",
      "Documents that --keep-tokens keeps. likeliest: those with the lowest perplexity under "
      "--model, which must then be the target (SPECTRA's refinement); random: a random choice, for "
      "comparison")
      ->check(CLI::IsMember({"likeliest", "random"}))
      ->default_str("likeliest");
  add("--seed", o.seed, "S", "Seed for --keep random")->check(is_seed())->capture_default_str();
  add("--window", o.window, "N",
      "Number of tokens at the start of a document that its perplexity is measured on")
      ->check(in_range(std::int64_t{2}, std::int64_t{1} << 20))
      ->capture_default_str();
  app.add_flag(
      "--bos", o.bos,
      "Start with the beginning-of-text token even if the model's tokenizer does not add it");
  add("--threads", o.threads, "N", "CPU threads for measuring perplexity; 0: one per fast core")
      ->check(in_range(std::int64_t{0}, std::int64_t{1024}))
      ->capture_default_str();
  add("--memory", o.memory_bytes, "BYTES",
      "Memory for sorting, e.g. 2GB (units of 1024), 65,536 suffixes per MB; more is slightly "
      "faster. The tokenizer and a few MB come in addition; with --keep-tokens, also the model and "
      "16 bytes per document")
      ->transform(as_byte_size())
      ->check(in_range(std::uint64_t{1} << 20, std::uint64_t{1} << 40, " bytes (1MB to 1TB)"))
      ->default_str("512MB");
  app.add_flag("--force", o.force, "Replace the file if it exists");
  add("--check", o.check, "FILE",
      "Check and describe this index without writing anything; needs no other option");
  app.footer(
      "An index takes 8 bytes of disk per token, and as much again while it is built. The system\n"
      "may cache all of it in free memory.\n"
      "Examples:\n"
      "  edgedraft index --model target.gguf --public manual.txt -o manual.index\n"
      "  edgedraft index --model target.gguf --public answers.jsonl --field answer --keep-tokens "
      "5000000 -o refined.index\n"
      "  edgedraft run -p TEXT --bundle drafter.gguf --index manual.index ...");
}

Result<int> run_index(const IndexCommandOptions& o) {
  if (!o.check.empty()) return check_index(o);
  if (auto right = check(o); !right) return right.error();
  const auto file = GgufFile::open(o.model);
  if (!file) return file.error();
  const auto tokenizer = Tokenizer::read(*file);
  if (!tokenizer) return in_file(o.model, tokenizer.error());
  const auto fingerprint = tokenizer_fingerprint(*file);
  if (!fingerprint) return in_file(o.model, fingerprint.error());
  auto builder = IndexBuilder::create({.output = o.output,
                                       .vocabulary_count = tokenizer->vocabulary_count(),
                                       .tokenizer = *fingerprint,
                                       .is_public = o.is_public,
                                       .memory_bytes = o.memory_bytes});
  if (!builder) return builder.error();
  const auto read = o.keep_tokens
                        ? add_refined(o, *file, *tokenizer, *builder)
                        : tokenize(o, *tokenizer, [&](std::span<const std::uint32_t> document) {
                            return builder->add(document);
                          });
  if (!read) return read.error();
  Progress progress("sorting", 2 * builder->token_count());
  const auto facts = builder->finish([&](std::uint64_t n) { progress.advance(n); });
  if (!facts) return facts.error();
  print(o.output, *facts);
  return 0;
}

}  // namespace edgedraft::client
