#include "client/commands/convert.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "shared/model/convert/convert.h"

namespace edgedraft {
namespace {

std::string type_names() {
  std::string names;
  for (const DType type : kDTypes)
    names += (names.empty() ? "" : ", ") + std::string(traits(type).name);
  return names;
}

Error usage(std::string message) {
  return {Errc::usage, std::move(message)};
}

Result<DType> check(const ConvertCommandOptions& o) {
  if (o.input.empty()) return usage("what is to be converted? Give a folder or a GGUF file");
  if (!std::filesystem::exists(o.input)) {
    return Error{Errc::io, o.input.string() + ": no such file or folder"};
  }
  if (o.output.empty()) return usage("-o: give the name of the file to write");
  if (o.bundle && o.drafter.empty()) {
    return usage("--bundle: give the drafter with --drafter DIR");
  }
  if (!o.bundle && !o.drafter.empty()) {
    return usage("--drafter goes with --bundle: both make the drafter's file for a target");
  }
  if (std::filesystem::exists(o.output)) {
    std::error_code error;
    if (std::filesystem::equivalent(o.input, o.output, error)) {
      return usage("-o " + o.output.string() + ": it is the file that is read");
    }
    if (!o.force) {
      return usage("-o " + o.output.string() + ": it exists; --force replaces it");
    }
  }
  const auto type = dtype_from_name(o.type);
  if (!type) return usage("--type " + o.type + ": give one of " + type_names());
  return *type;
}

}  // namespace

void declare_convert(CLI::App& app, ConvertCommandOptions& o) {
  app.add_option("input", o.input,
                 "A Hugging Face folder or a GGUF file; with --bundle the target's GGUF file")
      ->type_name("HF_DIR|GGUF");
  app.add_option("-o,--output", o.output, "The GGUF file to write")->type_name("FILE.gguf");
  app.add_option("--type", o.type, "How matrices are stored: " + type_names())
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_flag("--bundle", o.bundle, "Make a drafter's file for the target");
  app.add_option("--drafter", o.drafter,
                 "The drafter: a Mixture-of-Attentions checkpoint, or a small model with the "
                 "target's tokenizer")
      ->type_name("DIR|GGUF");
  app.add_flag("--force", o.force, "Replace the file where it exists");
  app.footer(
      "Examples:\n"
      "  edgedraft convert ~/models/TinyLlama -o tinyllama.gguf --type q8_0\n"
      "  edgedraft convert tinyllama.gguf --bundle --drafter ~/models/moa -o moa.gguf");
}

Result<int> run_convert(const ConvertCommandOptions& o) {
  const auto type = check(o);
  if (!type) return type.error();
  const auto done =
      o.bundle ? make_bundle(
                     {.target = o.input, .drafter = o.drafter, .output = o.output, .type = *type})
               : convert_model({.input = o.input, .output = o.output, .type = *type});
  if (!done) return done.error();
  std::cerr << o.output.string() << ": " << std::filesystem::file_size(o.output) << " bytes\n";
  return 0;
}

}  // namespace edgedraft
