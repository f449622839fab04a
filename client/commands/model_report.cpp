#include "client/commands/model_report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/engine/memory_fit.h"
#include "client/json_line.h"
#include "shared/base/bytes.h"
#include "shared/base/printable.h"
#include "shared/drafting/kinds.h"

namespace edgedraft::client {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNotInBuild = "not in this build";

std::string count_text(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return fmt::format("{:.2f} B", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} M", value / 1e6);
  return std::to_string(count);
}

std::string type_text(const ModelFacts& facts) {
  std::string text;
  for (const auto& [type, count] : facts.types) {
    const double share = static_cast<double>(count) / static_cast<double>(facts.parameters);
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", traits(type).name, 100 * share);
  }
  return text;
}

std::string tokenizer_text(const ModelFacts& facts) {
  if (facts.tokenizer.empty()) return "none";
  std::string text = facts.tokenizer;
  if (!facts.pre.empty()) text += ", pre-tokenizer " + facts.pre;
  if (facts.vocabulary_count > 0) text += fmt::format(", {} tokens", facts.vocabulary_count);
  return text;
}

std::string template_text(const ModelFacts& facts) {
  if (!facts.has_template) return "none: give --chat-template FILE or --raw";
  if (facts.template_failure.empty()) return "yes";
  return "cannot be used: " + facts.template_failure + "; give --chat-template FILE or --raw";
}

std::string digest_text(const std::optional<Digest>& digest) {
  return digest ? to_hex(*digest) : std::string();
}

// Says for each backend whether it runs the model.
struct BackendLine {
  const char* name;
  const char* side;
  bool is_built;
};
std::vector<BackendLine> backend_lines(const ModelReport& report) {
  return {{"cpu", "server and device", true},
          {"cuda", "server", report.has_cuda},
          {"vulkan", "device, drafting", report.has_vulkan}};
}

std::string runs_text(const ModelReport& report, const ModelFacts& facts) {
  if (facts.failure) return "no: " + facts.failure->message;
  std::string text;
  for (const BackendLine& line : backend_lines(report)) {
    text += fmt::format("{}{} ({}): {}", text.empty() ? "" : "; ", line.name, line.side,
                        line.is_built ? "yes" : kNotInBuild);
  }
  return text;
}

std::vector<std::string> memory_lines(const ModelUse& use, const ModelFacts& facts) {
  const ModelMemory& memory = *facts.memory;
  const bool is_bundle = !facts.drafter_kind.empty();
  const char* const each = is_bundle ? "conversation" : "session";
  std::string session = fmt::format("per {} of {} tokens {}", each, memory.context_count,
                                    mebibytes(memory.session()));
  if (!is_bundle) {
    session += fmt::format(": KV cache in {} {}, recurrent states {}", traits(use.kv_type).name,
                           mebibytes(memory.cache), mebibytes(memory.states));
  }
  if (memory.checkpoint > 0) {
    session +=
        fmt::format(", each checkpoint of them {} of --kv-memory", mebibytes(memory.checkpoint));
  }
  return {fmt::format("on the CPU, {} for {} {}{}, beside the mapped file of {}",
                      mebibytes(memory.total(use.sessions)), use.sessions, each,
                      use.sessions == 1 ? "" : "s", mebibytes(facts.file_bytes)),
          fmt::format("reordered weights {}, working memory {}", mebibytes(memory.weights),
                      mebibytes(memory.working)),
          session};
}

std::string shell_word(const std::filesystem::path& path) {
  const std::string text = path.string();
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/+,:@=").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_safe)) return text;
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return all + "'";
}

std::vector<std::string> drafter_lines(const InspectedModel& model) {
  const ModelFacts& facts = model.facts;
  std::string possible;
  std::vector<std::string> lines = {""};
  if (!facts.own_drafter.empty()) {
    lines.push_back("brings its own (" + facts.own_drafter + "): edgedraft split " +
                    shell_word(model.path) + " -o " +
                    shell_word(model.path.stem().string() + "-" + facts.own_drafter + ".gguf"));
  }
  for (const PossibleDrafter& drafter : facts.drafters) {
    if (drafter.reason.empty()) {
      possible += (possible.empty() ? "" : ", ") + drafter.kind;
    } else {
      lines.push_back(drafter.kind + ": no: " + drafter.reason);
    }
  }
  lines.front() =
      "can be made: " + possible + "; without a bundle of their own: " + weightless_kind_names();
  return lines;
}

class Page {
 public:
  explicit Page(std::ostream& out) : out_(out) {}

  void title(const std::string& text) { out_ << printable(text, Lines::one) << '\n'; }
  void line(const char* label, const std::string& text) {
    if (text.empty()) return;
    out_ << fmt::format("  {:<15}", label) << printable(text, Lines::one) << '\n';
  }
  void lines(const char* label, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      line(label, text);
      label = "";
    }
  }

 private:
  std::ostream& out_;
};

void print_model(const ModelReport& report, const InspectedModel& model, std::ostream& out) {
  const ModelFacts& facts = model.facts;
  Page page(out);
  page.title(model.path.string());
  page.line("name", facts.name);
  std::string family = facts.architecture;
  if (model.is_bundle()) family += ", a drafter's bundle (" + facts.drafter_kind + ")";
  if (!facts.layers.empty()) family += ", " + facts.layers;
  page.line("family", family);
  if (facts.parameters > 0) {
    page.line("parameters", count_text(facts.parameters) + ": " + type_text(facts));
  }
  if (facts.skipped_tensors > 0) {
    page.line("skipped",
              fmt::format("{} tensors with {} parameters, of blocks after the last layer",
                          facts.skipped_tensors, count_text(facts.skipped_parameters)));
  }
  if (facts.context_count > 0) {
    page.line("context", std::to_string(facts.context_count) + " tokens");
  }
  page.line("tokenizer", tokenizer_text(facts));
  page.line("chat template", template_text(facts));
  page.line("fingerprint", facts.fingerprint ? digest_text(facts.fingerprint)
                                             : "not stored; `edgedraft convert` stores it");
  page.line("made for", digest_text(facts.target));
  page.line("runs", runs_text(report, facts));
  if (facts.memory) page.lines("memory", memory_lines(report.use, facts));
  if (!facts.drafters.empty()) page.lines("drafters", drafter_lines(model));
}

std::string pair_text(const ModelPair& pair) {
  const std::string files = pair.drafter.string() + " for " + pair.target.string() + ": ";
  switch (pair.state) {
    case ModelPair::State::ready:
      return files + "made for it";
    case ModelPair::State::convertible:
      return files + "has its tokenizer; make a drafter of it with\n    " + convert_command(pair);
    case ModelPair::State::mismatch:
      break;
  }
  return files + "no: " + pair.reason;
}

// Mismatches are only of interest for a single pair, and for a bundle without its target.
bool is_shown(const ModelPair& pair, const std::vector<ModelPair>& all) {
  if (pair.state != ModelPair::State::mismatch || all.size() == 1) return true;
  return pair.is_bundle && std::ranges::none_of(all, [&](const ModelPair& other) {
           return other.drafter == pair.drafter && other.state == ModelPair::State::ready;
         });
}

ordered_json null_if_empty(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json null_if_zero(std::uint64_t number) {
  return number == 0 ? ordered_json(nullptr) : ordered_json(number);
}

ordered_json error_json(const Error& error) {
  return {{"code", to_string(error.code)}, {"message", error.message}};
}

ordered_json memory_json(const ModelUse& use, const ModelMemory& memory) {
  return {{"context", memory.context_count},       {"sessions", use.sessions},
          {"weights_bytes", memory.weights},       {"working_bytes", memory.working},
          {"cache_bytes", memory.cache},           {"states_bytes", memory.states},
          {"checkpoint_bytes", memory.checkpoint}, {"total_bytes", memory.total(use.sessions)}};
}

ordered_json model_json(const ModelReport& report, const InspectedModel& model) {
  const ModelFacts& facts = model.facts;
  ordered_json types = ordered_json::object();
  for (const auto& [type, count] : facts.types) types[std::string(traits(type).name)] = count;
  ordered_json backends = ordered_json::object();
  for (const BackendLine& line : backend_lines(report)) {
    backends[line.name] = facts.failure ? "no" : line.is_built ? "yes" : kNotInBuild;
  }
  ordered_json drafters = ordered_json::array();
  for (const PossibleDrafter& drafter : facts.drafters) {
    drafters.push_back({{"kind", drafter.kind}, {"reason", null_if_empty(drafter.reason)}});
  }
  return {{"file", model.path.string()},
          {"name", null_if_empty(facts.name)},
          {"architecture", null_if_empty(facts.architecture)},
          {"layers", null_if_empty(facts.layers)},
          {"bundle", null_if_empty(facts.drafter_kind)},
          {"file_bytes", facts.file_bytes},
          {"parameters", facts.parameters},
          {"types", types},
          {"skipped_tensors", facts.skipped_tensors},
          {"context", null_if_zero(facts.context_count)},
          {"vocabulary", null_if_zero(facts.vocabulary_count)},
          {"tokenizer", null_if_empty(facts.tokenizer)},
          {"pre_tokenizer", null_if_empty(facts.pre)},
          {"chat_template", facts.has_template},
          {"chat_template_failure", null_if_empty(facts.template_failure)},
          {"fingerprint", null_if_empty(digest_text(facts.fingerprint))},
          {"target", null_if_empty(digest_text(facts.target))},
          {"runs", backends},
          {"failure", facts.failure ? error_json(*facts.failure) : ordered_json(nullptr)},
          {"memory", facts.memory ? memory_json(report.use, *facts.memory) : ordered_json(nullptr)},
          {"own_drafter", null_if_empty(facts.own_drafter)},
          {"drafters", drafters}};
}

const char* state_name(ModelPair::State state) {
  switch (state) {
    case ModelPair::State::ready:
      return "ready";
    case ModelPair::State::convertible:
      return "convertible";
    case ModelPair::State::mismatch:
      break;
  }
  return "mismatch";
}

}  // namespace

std::string convert_command(const ModelPair& pair) {
  const std::string name = pair.drafter.stem().string() + "-bundle.gguf";
  return "edgedraft convert " + shell_word(pair.target) + " --bundle --drafter " +
         shell_word(pair.drafter) + " -o " + shell_word(name);
}

void print(const ModelReport& report, std::ostream& out) {
  for (const InspectedModel& model : report.models) {
    print_model(report, model, out);
    out << '\n';
  }
  for (const ModelPair& pair : report.pairs) {
    if (!is_shown(pair, report.pairs)) continue;
    out << printable(pair_text(pair), Lines::many) << '\n';
  }
}

std::string to_json(const ModelReport& report) {
  ordered_json json{{"models", ordered_json::array()},
                    {"unreadable", ordered_json::array()},
                    {"pairs", ordered_json::array()}};
  for (const InspectedModel& model : report.models) {
    json["models"].push_back(model_json(report, model));
  }
  for (const UnreadableModel& file : report.unreadable) {
    json["unreadable"].push_back({{"file", file.path.string()}, {"error", error_json(file.error)}});
  }
  for (const ModelPair& pair : report.pairs) {
    const bool converts = pair.state == ModelPair::State::convertible;
    json["pairs"].push_back({{"target", pair.target.string()},
                             {"drafter", pair.drafter.string()},
                             {"state", state_name(pair.state)},
                             {"reason", null_if_empty(pair.reason)},
                             {"command", null_if_empty(converts ? convert_command(pair) : "")}});
  }
  return json_line(json);
}

}  // namespace edgedraft::client
