#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <set>

#include "client/commands/commands.h"
#include "client/commands/model_report.h"
#include "client/vulkan/vulkan_backend.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/model/gguf_parts.h"
#include "shared/program/options.h"
#include "shared/program/validators.h"
#include "shared/protocol/limits.h"

namespace edgedraft::client {
namespace {

// The files in their order, without repeated ones and without further parts of a model.
std::vector<std::filesystem::path> distinct(const std::vector<std::filesystem::path>& files) {
  std::set<std::filesystem::path> seen;
  std::vector<std::filesystem::path> kept;
  for (const std::filesystem::path& file : files) {
    if (seen.insert(gguf_files_of(file).front().lexically_normal()).second) kept.push_back(file);
  }
  return kept;
}

// Bundles name their targets by fingerprint, so these are computed if there are bundles.
Result<void> add_target_fingerprints(std::vector<InspectedModel>& models) {
  if (std::ranges::none_of(models, &InspectedModel::is_bundle)) return {};
  Progress progress("hashing", models.size());
  for (InspectedModel& model : models) {
    if (model.decoder) {
      if (auto added = add_fingerprint(model); !added) return in_file(model.path, added.error());
    }
    progress.advance(1);
  }
  return {};
}

}  // namespace

void declare_models(CLI::App& app, ModelsOptions& o) {
  app.add_option("files", o.files, "Models and bundles; any part of a split model")
      ->type_name("FILE.gguf");
  app.add_option("--ctx", o.context_count,
                 "Tokens per session for the memory [the model's, at most 32768]")
      ->type_name("N")
      ->check(in_range(1u, kContextCountMax));
  app.add_option("--sessions", o.sessions, "Sessions, or conversations of a drafter, in memory")
      ->type_name("N")
      ->check(in_range(1u, 65536u))
      ->capture_default_str();
  app.add_option("--kv-type", o.kv_type,
                 "Element type of a target's KV cache: f32, f16, bf16 or int8")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--threads", o.threads,
                 "CPU threads, each of which takes working memory; 0: one per fast core")
      ->type_name("N")
      ->check(in_range(0u, 1024u))
      ->capture_default_str();
  app.add_flag("--json", o.json, "Print one JSON object to standard output");
  app.footer(
      "Says what each file is, whether it runs here, and what memory it takes on the CPU. With\n"
      "several files, also which of them draft for which. Loads no weights; only if a bundle is\n"
      "among the files, a model without a stored fingerprint is read (a second per GB).\n"
      "The status is 0 if all files are readable, even if a model does not run.\n"
      "Examples:\n"
      "  edgedraft models target.gguf --ctx 8192 --sessions 16\n"
      "  edgedraft models *.gguf");
}

Result<int> run_models(const ModelsOptions& o) {
  if (o.files.empty()) return usage_error("the files are missing: give one or more GGUF files");
  ModelReport report{.use = {.context_count = o.context_count,
                             .sessions = o.sessions,
                             .kv_type = cache_type_from_name(o.kv_type).value(),
                             .threads = o.threads},
                     .has_cuda = EDGEDRAFT_HAS_CUDA != 0,
                     .has_vulkan = plan_vulkan_backend({}).has_value()};
  for (const std::filesystem::path& file : distinct(o.files)) {
    auto model = inspect_model(file, report.use);
    if (model) {
      report.models.push_back(std::move(*model));
    } else {
      report.unreadable.push_back({file, model.error()});
    }
  }
  if (auto added = add_target_fingerprints(report.models); !added) return added.error();
  report.pairs = match_models(report.models);
  if (o.json) {
    std::cout << to_json(report) << std::endl;
  } else {
    print(report, std::cout);
  }
  for (const UnreadableModel& file : report.unreadable) {
    std::cerr << "edgedraft: " << printable(file.error.message, Lines::one) << '\n';
  }
  return report.unreadable.empty() ? 0 : exit_code_of(report.unreadable.front().error.code);
}

}  // namespace edgedraft::client
