#include "client/commands/commands.h"
#include "client/commands/report.h"
#include "client/version.h"
#include "shared/program/program.h"

namespace edgedraft::client {
namespace {

struct Options {
  RunOptions run;
  ChatOptions chat;
  ServeOptions serve;
  VerifyOptions verify;
  DevicesOptions devices;
  ModelsOptions models;
  ConvertCommandOptions convert;
  SplitCommandOptions split;
  TokenizeOptions tokenize;
  PerplexityOptions perplexity;
  IndexCommandOptions index;
};

int main_with(int argc, char** argv) {
  Options o;
  Program program(
      {.name = "edgedraft",
       .what =
           "Device side of a split language model: it drafts tokens, and a server verifies them",
       .version = kVersion,
       .default_file = "edgedraft.toml"});
  program.write_errors_as(to_json);
  program.command("run", "Answer one prompt", o.run, declare_run, run_once);
  program.command("chat", "Hold a conversation", o.chat, declare_chat, run_chat);
  program.command("serve", "Serve OpenAI's API on this device", o.serve, declare_serve, run_serve);
  program.command("verify", "Check the receipt of an answer", o.verify, declare_verify, run_verify);
  program.command("devices", "List the devices that can draft", o.devices, declare_devices,
                  run_devices);
  program.command("models", "Describe model files, their memory and their drafters", o.models,
                  declare_models, run_models);
  program.command("convert", "Convert models to GGUF files and bundles", o.convert, declare_convert,
                  run_convert);
  program.command("split", "Make a drafter of the block for multi-token prediction in a model",
                  o.split, declare_split, run_split);
  program.command("tokenize", "Print the token ids of a text", o.tokenize, declare_tokenize,
                  run_tokenize);
  program.command("perplexity", "Measure a model's perplexity on a text", o.perplexity,
                  declare_perplexity, run_perplexity);
  program.command("index", "Build an index of public texts to copy drafts from", o.index,
                  declare_index, run_index);
  return program.main(argc, argv);
}

}  // namespace
}  // namespace edgedraft::client

int main(int argc, char** argv) {
  return edgedraft::client::main_with(argc, argv);
}
