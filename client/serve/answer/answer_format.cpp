#include "client/serve/answer/answer_format.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace edgedraft::client {

std::string FinishedChoice::finish_reason() const {
  if (!calls.empty()) return "tool_calls";
  const bool ended = outcome.end == GenerationEnd::end_token || outcome.end == GenerationEnd::stop;
  return stopped || ended ? "stop" : "length";
}

bool FinishedChoice::is_offline() const {
  return std::ranges::any_of(outcome.provenance, [](Provenance provenance) {
    return provenance == Provenance::offline || provenance == Provenance::private_;
  });
}

nlohmann::ordered_json counters_of(const GenerationOutcome& outcome,
                                   const RequestPrivacy& privacy) {
  using Json = nlohmann::ordered_json;
  Json counters = {{"tokens", outcome.stats.tokens},
                   {"offline_tokens", std::ranges::count(outcome.provenance, Provenance::offline)},
                   {"rewritten_tokens", outcome.stats.rewritten_tokens},
                   {"resyncs", outcome.stats.resyncs},
                   {"target_passes", outcome.stats.target_calls},
                   {"acceptance_length",
                    outcome.stats.cycles > 0 ? Json(outcome.stats.acceptance_length()) : Json()},
                   {"drafted", outcome.stats.drafted},
                   {"streamed_because", outcome.stats.streamed_because},
                   {"bytes_up", outcome.link.bytes_up},
                   {"bytes_down", outcome.link.bytes_down}};
  // Number of masked values per type, or "local".
  if (privacy.is_local) counters["private"] = "local";
  if (privacy.placeholders) {
    for (const auto& [type, count] : privacy.placeholders->counts()) {
      counters["private"][to_string(type)] = count;
    }
  }
  return counters;
}

AnswerFormat::AnswerFormat(AnswerFacts facts, std::uint64_t salt)
    : facts_(std::move(facts)),
      random_(salt),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()) {}

std::string AnswerFormat::random_characters(std::size_t count) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string text;
  while (text.size() < count) text += kAlphabet[random_.below(kAlphabet.size())];
  return text;
}

std::string AnswerFormat::new_id(const char* prefix) {
  constexpr std::size_t kIdCharacters = 24;
  return prefix + random_characters(kIdCharacters);
}

}  // namespace edgedraft::client
