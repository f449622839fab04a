#include "client/commands/commands.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <vector>

#include "client/commands/text_perplexity.h"
#include "shared/base/progress.h"
#include "shared/base/text_file.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"
#include "shared/runtime/decoder.h"

namespace edgedraft::client {

void declare_perplexity(CLI::App& app, PerplexityOptions& options) {
  app.add_option("--model", options.model, "Target or any other whole model")
      ->type_name("FILE.gguf");
  app.add_option("-f,--file", options.file, "File with the text; - reads standard input")
      ->type_name("FILE");
  app.add_option("--window", options.window,
                 "Tokens per window. Each window is read by itself, and only its second half "
                 "counts")
      ->type_name("N")
      ->check(in_range(std::int64_t{3}, std::int64_t{kContextCountMax}))
      ->capture_default_str();
  app.add_flag("--bos", options.bos,
               "Start each window with the beginning-of-text token even if the model's tokenizer "
               "does not add it");
  app.add_option("--kv-type", options.kv_type,
                 "Element type of the KV cache: f32, f16, bf16 or int8")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads; 0: one per fast core")
      ->type_name("N")
      ->check(in_range(std::int64_t{0}, std::int64_t{1024}))
      ->capture_default_str();
  app.footer(
      "Windows, their first token and the tokens that count are as in llama.cpp's tool, so that\n"
      "results can be compared.\n"
      "Example:\n"
      "  edgedraft perplexity --model target.gguf -f wiki.test.raw");
}

Result<int> run_perplexity(const PerplexityOptions& options) {
  if (options.model.empty())
    return Error{Errc::usage, "the model is missing: give --model FILE.gguf"};
  if (options.file.empty()) {
    return Error{Errc::usage, "the text is missing: give -f FILE (- reads standard input)"};
  }
  const auto file = GgufFile::open(options.model);
  if (!file) return file.error();
  const auto model = read_decoder(*file);
  if (!model) return in_file(options.model, model.error());
  const std::uint32_t context_count = model->config.context_length;
  const auto tokenizer = Tokenizer::read(*file);
  if (!tokenizer) return in_file(options.model, tokenizer.error());
  // Tokens of a window's second half count, except its first.
  if (options.window < 3 || options.window > context_count) {
    return Error{Errc::usage, "--window: expected a number from 3 to " +
                                  std::to_string(context_count) + ", the model's context"};
  }
  const auto window_count = static_cast<std::uint32_t>(options.window);
  const auto text = read_text(options.file, kWholeTextBytesMax);
  if (!text) return text.error();
  const std::vector<std::uint32_t> tokens = tokenizer->encode(*text, Special::plain);
  const auto backend = make_cpu_backend({.threads = static_cast<std::uint32_t>(options.threads)});
  Decoder decoder(*backend, model->config, model->tensors, window_count);
  const auto bos = tokenizer->add_bos() || options.bos ? tokenizer->bos_id() : std::nullopt;
  if (options.bos && !bos)
    return Error{Errc::usage, "--bos: the tokenizer has no beginning-of-text token"};
  Progress progress("perplexity", tokens.size());
  const PerplexityMeter meter = measure_perplexity(
      decoder, tokens, bos, window_count, [&](std::uint64_t n) { progress.advance(n); },
      cache_type_from_name(options.kv_type).value());
  if (meter.count() == 0) {
    return Error{Errc::usage, "-f " + options.file.string() + ": the text is too short to measure"};
  }
  const auto error = meter.standard_error();
  std::cout << fmt::format("perplexity {:.4f} +- {} over {} tokens in windows of {}\n",
                           meter.perplexity(), error ? fmt::format("{:.4f}", *error) : "-",
                           meter.count(), window_count);
  return 0;
}

}  // namespace edgedraft::client
