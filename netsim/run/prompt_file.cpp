#include "netsim/run/prompt_file.h"

#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace edgedraft::netsim {

Result<std::vector<Prompt>> read_prompts(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return Error{Errc::io, file.string() + ": cannot be read"};
  std::vector<Prompt> prompts;
  std::map<std::string, std::size_t> counts;  // by task
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_file,
                   file.string() + ", line " + std::to_string(number) + ": " + what};
    };
    if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) {
      return wrong("expected a JSON object with a string \"prompt\"");
    }
    Prompt prompt{.id = {}, .task = "text", .text = json["prompt"], .reference = {}};
    for (const auto& [key, field] :
         {std::pair("task", &prompt.task), std::pair("reference", &prompt.reference)}) {
      const auto found = json.find(key);
      if (found == json.end() || found->is_null()) continue;
      if (!found->is_string()) return wrong(std::string("\"") + key + "\" is not a string");
      *field = found->get<std::string>();
    }
    prompt.id = prompt.task + "-" + std::to_string(++counts[prompt.task]);
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return Error{Errc::bad_file, file.string() + ": contains no prompts"};
  return prompts;
}

}  // namespace edgedraft::netsim
