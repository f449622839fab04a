#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "client/commands/chat.h"
#include "client/commands/convert.h"
#include "client/commands/devices.h"
#include "client/commands/perplexity.h"
#include "client/commands/report.h"
#include "client/commands/run.h"
#include "client/commands/tokenize.h"
#include "client/version.h"
#include "shared/program/options.h"

namespace edgedraft {
namespace {

struct Commands {
  RunOptions run;
  ChatOptions chat;
  DevicesOptions devices;
  ConvertCommandOptions convert;
  TokenizeOptions tokenize;
  PerplexityOptions perplexity;
};

int fail(const Error& error, const Commands& commands) {
  std::cerr << "edgedraft: " << error.message << '\n';
  if (commands.run.answer.json || commands.chat.answer.json || commands.devices.json) {
    std::cout << to_json(error) << std::endl;
  }
  return exit_code_of(error.code);
}

int main_with(int argc, char** argv) {
  CLI::App app{"The device's half of a split language model: drafts here, verified by a server",
               "edgedraft"};
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("edgedraft COMMAND --help tells more about each.");

  Commands commands;
  std::function<Result<int>()> command;
  const auto declare = [&](const char* name, const char* what, auto& options, auto add, auto run) {
    CLI::App* sub = app.add_subcommand(name, what);
    add(*sub, options);
    sub->fallthrough();
    sub->callback(
        [&command, &options, run] { command = [&options, run] { return run(options); }; });
  };
  declare("run", "Answer one prompt", commands.run, declare_run, run_once);
  declare("chat", "Hold a conversation", commands.chat, declare_chat, run_chat);
  declare("devices", "List where drafts can be made", commands.devices, declare_devices,
          run_devices);
  declare("convert", "Make GGUF files and bundles", commands.convert, declare_convert, run_convert);
  declare("tokenize", "Show a text's tokens", commands.tokenize, declare_tokenize, run_tokenize);
  declare("perplexity", "Measure a model on a text", commands.perplexity, declare_perplexity,
          run_perplexity);

  OptionLayers layers(app, "edgedraft.toml");
  if (!layers.parse(argc, argv)) return layers.exit_code();
  try {
    const auto status = command();
    return status ? *status : fail(status.error(), commands);
  } catch (const Failure& failure) {
    return fail(failure.error(), commands);
  } catch (const std::exception& failure) {
    return fail({Errc::io, failure.what()}, commands);
  }
}

}  // namespace
}  // namespace edgedraft

int main(int argc, char** argv) {
  return edgedraft::main_with(argc, argv);
}
