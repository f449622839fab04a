#include "tests/bench/engine_baseline.h"

#include <algorithm>
#include <string>

#include "shared/base/text_file.h"

namespace edgedraft::bench {
namespace {

constexpr std::uint64_t kFileBytesMax = 1u << 20;

bool is_part_of(const nlohmann::json& setting, const nlohmann::json& report) {
  for (const auto& [name, value] : setting.items()) {
    if (!report.contains(name) || report[name] != value) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<double>> read_baseline(const std::filesystem::path& file,
                                          const nlohmann::json& report,
                                          std::span<const std::uint32_t> widths) {
  const auto text = read_text_file(file, kFileBytesMax);
  if (!text) return text.error();
  try {
    const auto entries = nlohmann::json::parse(*text);
    const auto entry = std::ranges::find_if(entries, [&](const nlohmann::json& candidate) {
      return is_part_of(candidate.at("setting"), report);
    });
    if (entry == entries.end()) {
      return Error{Errc::unsupported,
                   file.string() + ": has no baseline for this setting: " + report.dump()};
    }
    std::vector<double> shares;
    for (const std::uint32_t width : widths) {
      shares.push_back(entry->at("shares").at(std::to_string(width)).get<double>());
      if (shares.back() <= 0.0) {
        return bad_file(file.string() + ": share of width " + std::to_string(width) +
                        ": expected a number above 0");
      }
    }
    return shares;
  } catch (const nlohmann::json::exception& error) {
    return bad_file(file.string() + ": " + error.what());
  }
}

}  // namespace edgedraft::bench
