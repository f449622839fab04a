#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "shared/base/error.h"
#include "shared/base/text_file.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "shared/program/program.h"
#include "shared/program/validators.h"
#include "shared/runtime/decoder.h"
#include "tests/bench/commands.h"

namespace edgedraft::bench {
namespace {

struct AgreementOptions {
  std::filesystem::path model;
  std::filesystem::path greedy;
  std::string recorded_as;
  float margin = 1e-2f;
  std::filesystem::path texts;
  std::filesystem::path ids;
};

constexpr const char* kAgreementHelp =
    R"(Compares a model with what another implementation recorded, and exits with 1 where they differ.

--greedy: JSON lines with "prompt", "prompt_ids" and "greedy_ids", and "model", the name of the file that they
are from; lines of another name are left out. The prompt is tokenised, and the recorded ids are fed one by one:
at each the model's likeliest token has to be the recorded one. A record that is shorter than the longest ended
with an end token. Steps where the two likeliest logits are closer than --margin count as undecided.

--texts: texts with a line __ggml_vocab_test__ between them, and --ids, their ids, a line each: the format of
llama.cpp's vocabulary tests. There have to be as many of one as of the other, and one at least. The model may be a
vocabulary alone.

Examples:
  edgedraft-bench agreement --model stories260K-f32.gguf --greedy llama-cpp-greedy.jsonl
  edgedraft-bench agreement --model ggml-vocab-llama-bpe.gguf --texts ggml-vocab-llama-bpe.gguf.inp \
    --ids ggml-vocab-llama-bpe.gguf.out)";

constexpr std::uint64_t kFileBytesMax = 1u << 26;

using Ids = std::vector<std::uint32_t>;

struct Record {
  std::string prompt;
  Ids prompt_ids;
  Ids greedy_ids;
};

// Errors    io; bad_file naming the line
Result<std::vector<Record>> read_records(const std::filesystem::path& path,
                                         const std::string& model) {
  std::ifstream in(path);
  if (!in) return Error{Errc::io, path.string() + ": cannot be read"};
  std::vector<Record> records;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    try {
      const auto json = nlohmann::json::parse(line);
      if (json.at("model").get<std::string>() != model) continue;
      records.push_back({.prompt = json.at("prompt").get<std::string>(),
                         .prompt_ids = json.at("prompt_ids").get<Ids>(),
                         .greedy_ids = json.at("greedy_ids").get<Ids>()});
    } catch (const nlohmann::json::exception& error) {
      return Error{Errc::bad_file,
                   path.string() + ", line " + std::to_string(number) + ": " + error.what()};
    }
  }
  if (records.empty()) {
    return Error{Errc::bad_file, path.string() + ": no record of " + model +
                                     "; name the recorded file with --recorded-as"};
  }
  return records;
}

struct Tally {
  std::size_t equal = 0;
  std::size_t undecided = 0;
  std::size_t different = 0;

  bool good() const { return different == 0; }
};

void print(const char* what, const Tally& tally) {
  std::printf("%-22s %zu equal, %zu undecided, %zu different\n", what, tally.equal, tally.undecided,
              tally.different);
}

struct Likeliest {
  std::uint32_t token = 0;
  float lead = 0.0f;  // margin over the second
};

Likeliest likeliest_of(std::span<const float> logits) {
  Likeliest best;
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
  for (std::uint32_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > first) {
      second = first;
      first = logits[i];
      best.token = i;
    } else {
      second = std::max(second, logits[i]);
    }
  }
  best.lead = first - second;
  return best;
}

// Follows one record; `ends` is true if an end token follows its ids.
Tally follow(Decoder& decoder, const Tokenizer& tokenizer, const Record& record, bool ends,
             float margin) {
  Tally tally;
  KvCache cache = decoder.make_cache();
  std::vector<float> logits(decoder.config().vocabulary_count);
  Ids next = record.prompt_ids;
  const std::size_t steps = record.greedy_ids.size() + (ends ? 1 : 0);
  for (std::size_t step = 0; step < steps; ++step) {
    const std::uint32_t rows = decoder.append(cache, next);
    decoder.backend().read(decoder.logits(rows - 1, 1), logits);
    const Likeliest found = likeliest_of(logits);
    const bool at_end = step == record.greedy_ids.size();
    const bool equal =
        at_end ? tokenizer.is_end(found.token) : found.token == record.greedy_ids[step];
    if (equal) {
      ++tally.equal;
    } else if (found.lead <= margin) {
      ++tally.undecided;
    } else {
      ++tally.different;
    }
    if (!at_end) next = {record.greedy_ids[step]};
  }
  return tally;
}

Result<bool> compare_greedy(const AgreementOptions& o) {
  const auto records =
      read_records(o.greedy, o.recorded_as.empty() ? o.model.filename().string() : o.recorded_as);
  if (!records) return records.error();
  const auto file = GgufFile::open(o.model);
  if (!file) return file.error();
  const auto model = read_decoder(*file);
  if (!model) return model.error();
  const auto tokenizer = Tokenizer::read(*file);
  if (!tokenizer) return tokenizer.error();

  std::size_t longest = 0;
  std::size_t positions = 0;
  for (const Record& r : *records) {
    for (const Ids* ids : {&r.prompt_ids, &r.greedy_ids}) {
      for (const std::uint32_t id : *ids) {
        if (id < model->config.vocabulary_count) continue;
        return Error{Errc::bad_file, o.greedy.string() + ": id " + std::to_string(id) +
                                         " is outside the model's vocabulary"};
      }
    }
    if (r.prompt_ids.empty()) return Error{Errc::bad_file, o.greedy.string() + ": empty prompt"};
    longest = std::max(longest, r.greedy_ids.size());
    positions = std::max(positions, r.prompt_ids.size() + r.greedy_ids.size());
  }
  if (positions > model->config.context_length) {
    return Error{Errc::bad_file, o.greedy.string() + ": a record is longer than the context, " +
                                     std::to_string(model->config.context_length)};
  }
  const auto backend = make_cpu_backend({.threads = 0});
  Decoder decoder(*backend, model->config, model->tensors, static_cast<std::uint32_t>(positions));
  Tally prompts;
  Tally steps;
  for (const Record& r : *records) {
    Ids ids = tokenizer->encode(r.prompt, Special::plain);
    const auto bos = tokenizer->bos_id();
    // The record says whether a beginning-of-text token is expected.
    if (bos && r.prompt_ids.front() == *bos) ids.insert(ids.begin(), *bos);
    ++(ids == r.prompt_ids ? prompts.equal : prompts.different);
    const Tally t = follow(decoder, *tokenizer, r, r.greedy_ids.size() < longest, o.margin);
    steps.equal += t.equal;
    steps.undecided += t.undecided;
    steps.different += t.different;
  }
  print("prompts", prompts);
  print("steps", steps);
  return prompts.good() && steps.good();
}

// Splits at the separator's lines. Each text, including the last, ends with one line feed.
std::vector<std::string> split_texts(const std::string& all) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (std::size_t at; (at = all.find(kSeparator, begin)) != std::string::npos;
       begin = at + kSeparator.size()) {
    texts.push_back(all.substr(begin, at - begin));
  }
  if (begin < all.size()) texts.push_back(all.substr(begin));
  return texts;
}

Result<bool> compare_texts(const AgreementOptions& o) {
  const auto file = GgufFile::open(o.model);
  if (!file) return file.error();
  const auto tokenizer = Tokenizer::read(*file);
  if (!tokenizer) return tokenizer.error();
  const auto texts = read_text(o.texts, kFileBytesMax);
  if (!texts) return texts.error();
  const auto ids = read_text(o.ids, kFileBytesMax);
  if (!ids) return ids.error();
  const std::vector<std::string> split = split_texts(*texts);
  if (split.empty()) return Error{Errc::bad_file, o.texts.string() + ": holds no text"};
  Tally tally;
  std::istringstream lines(*ids);
  std::string line;
  for (const std::string& text : split) {
    if (!std::getline(lines, line)) {
      return Error{Errc::bad_file, o.ids.string() + ": has fewer lines than there are texts"};
    }
    std::istringstream numbers(line);
    const Ids wanted{std::istream_iterator<std::uint32_t>(numbers), {}};
    ++(tokenizer->encode(text, Special::plain) == wanted ? tally.equal : tally.different);
  }
  if (std::getline(lines, line)) {
    return Error{Errc::bad_file, o.ids.string() + ": has more lines than there are texts"};
  }
  print("texts", tally);
  return tally.good();
}

void declare_agreement(CLI::App& app, AgreementOptions& o) {
  app.footer(kAgreementHelp);
  app.add_option("--model", o.model, "The model")->type_name("FILE.gguf");
  app.add_option("--greedy", o.greedy, "Recorded greedy decoding")->type_name("FILE.jsonl");
  app.add_option("--recorded-as", o.recorded_as,
                 "The model's name in that recording [its file's name]")
      ->type_name("NAME");
  app.add_option("--margin", o.margin, "Tokens whose logits are closer than this may change places")
      ->check(in_range(0.0f, 1e6f))
      ->capture_default_str();
  app.add_option("--texts", o.texts, "Texts to tokenise")->type_name("FILE");
  app.add_option("--ids", o.ids, "The token ids of those texts")->type_name("FILE");
}

// Checks that a model reproduces the ids recorded from another implementation. Returns the exit
// status: 1 if it does not.
Result<int> run_agreement(const AgreementOptions& o) {
  if (o.model.empty()) return Error{Errc::usage, "which model? Give --model FILE.gguf"};
  if (o.texts.empty() != o.ids.empty()) {
    return Error{Errc::usage, "--texts and --ids belong together: give both"};
  }
  if (o.greedy.empty() && o.texts.empty()) {
    return Error{Errc::usage, "compare with what? Give --greedy FILE, or --texts FILE --ids FILE"};
  }
  bool good = true;
  if (!o.greedy.empty()) {
    const auto greedy = compare_greedy(o);
    if (!greedy) return greedy.error();
    good = *greedy;
  }
  if (!o.texts.empty()) {
    const auto texts = compare_texts(o);
    if (!texts) return texts.error();
    good = good && *texts;
  }
  return good ? 0 : 1;
}

}  // namespace

void add_agreement(Program& program) {
  static AgreementOptions options;
  program.command("agreement", "Does a model repeat another implementation's ids?", options,
                  declare_agreement, run_agreement);
}

}  // namespace edgedraft::bench
