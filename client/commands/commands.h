#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/client_options.h"
#include "shared/base/error.h"

// Commands of the program: the options of each, their declaration, and its main function, which
// returns the exit status.
namespace edgedraft::client {

struct RunOptions {
  OptionValues answer;
  std::optional<std::string> prompt;
  std::filesystem::path file;        // "-": standard input
  std::filesystem::path prediction;  // empty: none
  std::filesystem::path receipt;     // written after the answer; empty: none
};

void declare_run(CLI::App& app, RunOptions& options);

// Answers one prompt.
Result<int> run_once(const RunOptions& options);

struct ChatOptions {
  OptionValues answer;
  std::string system;  // empty: no system prompt
};

void declare_chat(CLI::App& app, ChatOptions& options);

// Answers each line of standard input as the next turn of a conversation.
Result<int> run_chat(const ChatOptions& options);

struct ServeOptions {
  ServeOptions() {
    answer.config.generation.tokens_max = 4096;
    answer.private_detect = {"mail", "card", "iban", "key"};
  }

  OptionValues answer;
  std::string listen = "127.0.0.1:7430";
  std::filesystem::path api_key_file;
  std::vector<std::string> allow_origins;
  std::vector<std::string> allow_hosts;
  std::string alias;  // empty: the bundle's file name
  std::string offline = "keep";
  std::uint32_t hold_ms = 3000;
  std::string route = "server";
  double handover_below = 0.5;
  std::uint32_t conversations = 64;
  std::optional<std::string> page;  // conversation file, "memory" or "off"
};

void declare_serve(CLI::App& app, ServeOptions& options);

// Serves the local API until interrupted.
Result<int> run_serve(const ServeOptions& options);

struct VerifyOptions {
  ClientSettings config;  // the server at which to replay
  std::filesystem::path file;
  std::string signer;  // pin of the key that must have signed; empty: any
  bool signature_only = false;
};

void declare_verify(CLI::App& app, VerifyOptions& options);

// Checks a receipt: 0 if it is right, 1 if not, 2 if that cannot be decided here.
Result<int> run_verify(const VerifyOptions& options);

struct DevicesOptions {
  std::filesystem::path bundle;
  std::int64_t threads = 0;
  bool json = false;
};

void declare_devices(CLI::App& app, DevicesOptions& options);

// Lists the devices that can draft.
Result<int> run_devices(const DevicesOptions& options);

struct ConvertCommandOptions {
  std::filesystem::path input;
  std::filesystem::path output;
  std::optional<std::string> type;  // f16 if absent
  std::optional<std::string> pre;
  bool bundle = false;
  std::filesystem::path drafter;
  std::optional<std::int64_t> draft_vocab;
  std::filesystem::path corpus;
  bool force = false;
};

void declare_convert(CLI::App& app, ConvertCommandOptions& options);

// Converts a model, or makes a bundle.
Result<int> run_convert(const ConvertCommandOptions& options);

struct SplitCommandOptions {
  std::filesystem::path model;
  std::filesystem::path output;
  std::string head;                          // number of tokens; empty: all
  std::vector<std::filesystem::path> texts;  // whose tokens are counted
  bool force = false;
};

void declare_split(CLI::App& app, SplitCommandOptions& options);

// Cuts the drafter that a model's file brings out of it.
Result<int> run_split(const SplitCommandOptions& options);

struct TokenizeOptions {
  std::filesystem::path model;
  std::filesystem::path file;  // "-": standard input
  bool parse_special = false;
  bool chat = false;
};

void declare_tokenize(CLI::App& app, TokenizeOptions& options);

// Prints the ids of a text, or of the conversation that it begins, on one line.
Result<int> run_tokenize(const TokenizeOptions& options);

struct PerplexityOptions {
  std::filesystem::path model;
  std::filesystem::path file;  // "-": standard input
  std::int64_t window = 512;   // tokens
  bool bos = false;            // even if the tokenizer does not request it
  std::string kv_type = "f32";
  std::int64_t threads = 0;
};

void declare_perplexity(CLI::App& app, PerplexityOptions& options);

// Prints a model's perplexity on a text.
Result<int> run_perplexity(const PerplexityOptions& options);

struct ModelsOptions {
  std::vector<std::filesystem::path> files;
  std::optional<std::uint32_t> context_count;
  std::uint32_t sessions = 1;
  std::string kv_type = "f32";
  std::uint32_t threads = 0;
  bool json = false;
};

void declare_models(CLI::App& app, ModelsOptions& options);

// Describes GGUF files. Reports unreadable files on standard error, after the others.
Result<int> run_models(const ModelsOptions& options);

struct IndexCommandOptions {
  std::vector<std::filesystem::path> corpus;
  std::filesystem::path model;
  std::filesystem::path output;
  std::filesystem::path check;  // verifies this index instead of building one
  std::string split = "file";
  std::string field = "text";
  bool is_public = false;
  std::uint64_t memory_bytes = std::uint64_t{512} << 20;
  std::optional<std::int64_t> keep_tokens;
  std::optional<std::string> keep;  // default: likeliest
  std::uint64_t seed = 0;
  std::int64_t window = 512;
  bool bos = false;
  std::int64_t threads = 0;
  bool force = false;
};

void declare_index(CLI::App& app, IndexCommandOptions& options);

// Builds an index of texts for drafters that copy from it.
Result<int> run_index(const IndexCommandOptions& options);

}  // namespace edgedraft::client
