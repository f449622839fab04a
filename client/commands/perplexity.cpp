#include "client/commands/perplexity.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "client/text_file.h"
#include "shared/base/progress.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "shared/runtime/decoder.h"

namespace edgedraft {
namespace {

constexpr std::uint64_t kFileBytesMax = 1u << 30;

double negative_log_probability(std::span<const float> logits, std::uint32_t token) {
  const float best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - best);
  return std::log(sum) + best - logits[token];
}

// Mean and spread of the negative log-probabilities of a text.
struct Surprise {
  double sum = 0;
  double square_sum = 0;
  std::uint64_t count = 0;

  void add(double x) {
    sum += x;
    square_sum += x * x;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double standard_error() const {
    const auto n = static_cast<double>(count);
    return std::sqrt(std::max(0.0, square_sum / n - mean() * mean()) / n);
  }
};

// Adds every token of `window` behind its first.
void measure_window(Decoder& decoder, std::span<const std::uint32_t> window, Surprise& surprise) {
  KvCache cache = decoder.make_cache();
  std::vector<float> row(decoder.config().vocabulary_count);
  for (std::size_t first = 0; first + 1 < window.size(); first += kMaskRowsMax) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(kMaskRowsMax, window.size() - 1 - first));
    decoder.append(cache, window.subspan(first, count));
    const Matrix logits = decoder.logits(0, count);
    for (std::uint32_t r = 0; r < count; ++r) {
      decoder.backend().read(logits.row_range(r, 1), row);
      surprise.add(negative_log_probability(row, window[first + r + 1]));
    }
  }
}

}  // namespace

void declare_perplexity(CLI::App& app, PerplexityOptions& options) {
  app.add_option("--model", options.model, "A target, or an independent drafter")
      ->type_name("FILE.gguf");
  app.add_option("-f,--file", options.file, "The text; - reads standard input")->type_name("FILE");
  app.add_option("--window", options.window,
                 "The text is read in pieces of so many tokens, each without the ones before")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "0: one a core")
      ->type_name("N")
      ->capture_default_str();
  app.footer("Example:\n  edgedraft perplexity --model target.gguf -f wiki.test.raw");
}

Result<int> run_perplexity(const PerplexityOptions& options) {
  if (options.model.empty()) return Error{Errc::usage, "which model? Give --model FILE.gguf"};
  if (options.file.empty()) {
    return Error{Errc::usage, "which text? Give -f FILE (- reads standard input)"};
  }
  if (options.threads < 0 || options.threads > 1024) {
    return Error{Errc::usage, "--threads: give a number from 0 to 1024"};
  }
  const auto file = GgufFile::open(options.model);
  if (!file) return file.error();
  const auto config = read_decoder_config(*file);
  if (!config) return config.error();
  const auto tensors = read_decoder_tensors(*file, *config);
  if (!tensors) return tensors.error();
  const auto tokenizer = Tokenizer::read(*file);
  if (!tokenizer) return tokenizer.error();
  if (options.window < 2 || options.window > config->context_length) {
    return Error{Errc::usage, "--window: give a number from 2 to " +
                                  std::to_string(config->context_length) + ", the model's context"};
  }
  const auto window_count = static_cast<std::uint32_t>(options.window);
  const auto text = read_text(options.file, kFileBytesMax);
  if (!text) return text.error();
  const std::vector<std::uint32_t> tokens = tokenizer->encode(*text, Special::plain);
  if (tokens.size() < 2) {
    return Error{Errc::usage, "-f " + options.file.string() + ": too short to predict anything"};
  }

  const auto backend = make_cpu_backend({.threads = static_cast<std::uint32_t>(options.threads)});
  Decoder decoder(*backend, *config, *tensors, window_count);
  const bool leads_with_bos = tokenizer->add_bos() && tokenizer->bos_id();
  const std::size_t step = leads_with_bos ? window_count - 1 : window_count;
  Surprise surprise;
  Progress progress("perplexity", tokens.size());
  for (std::size_t first = 0; first < tokens.size(); first += step) {
    const std::size_t count = std::min(step, tokens.size() - first);
    std::vector<std::uint32_t> window;
    if (leads_with_bos) window.push_back(*tokenizer->bos_id());
    window.insert(window.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                  tokens.begin() + static_cast<std::ptrdiff_t>(first + count));
    measure_window(decoder, window, surprise);
    progress.advance(count);
  }
  const double perplexity = std::exp(surprise.mean());
  std::printf("perplexity %.4f +- %.4f over %llu tokens in windows of %u\n", perplexity,
              perplexity * surprise.standard_error(),
              static_cast<unsigned long long>(surprise.count), window_count);
  return 0;
}

}  // namespace edgedraft
