#include "shared/protocol/receipt.h"

#include <array>
#include <charconv>

#include "shared/base/bytes.h"
#include "shared/base/check.h"

namespace edgedraft {
namespace {

// The shortest text that reads back as the same float, whatever the locale.
std::string exact(float value) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), written.ptr);
}

void add_counted(std::string& to, std::string_view text) {
  to += std::to_string(text.size()) + ' ';
  to += text;
  to += '\n';
}

Digest hash_of(const Constraints& constraints) {
  std::string text = std::to_string(constraints.answer_begin) + '\n';
  for (const std::string& stop : constraints.stops) add_counted(text, stop);
  for (const Constraints::Bias& bias : constraints.biases) {
    text += "bias " + std::to_string(bias.token) + ' ' + exact(bias.bias) + '\n';
  }
  text += exact(constraints.presence_penalty) + ' ' + exact(constraints.frequency_penalty) + '\n';
  add_counted(text, constraints.grammar);
  return sha256(as_byte_view(text));
}

Digest hash_of(std::span<const std::uint32_t> tokens, std::span<const Attested> provenance) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text += std::to_string(tokens[i]) + ' ';
    text += to_string(provenance[i]);
    text += '\n';
  }
  return sha256(as_byte_view(text));
}

}  // namespace

std::string_view to_string(Attested attested) {
  return attested == Attested::checked ? "checked" : "chosen";
}

std::vector<Attested> attested_answer(std::size_t checked_count) {
  std::vector<Attested> provenance(checked_count, Attested::checked);
  provenance.push_back(Attested::chosen);
  return provenance;
}

std::string receipt_statement(const ReceiptFacts& facts) {
  EDGEDRAFT_CHECK(facts.provenance.size() == facts.answer.size());
  const SamplingParams& sampling = facts.sampling;
  std::string text = "edgedraft receipt 1\n";
  const auto add = [&text](std::string_view name, std::string_view value) {
    text += name;
    text += ' ';
    text += value;
    text += '\n';
  };
  add("target", to_hex(facts.target));
  add("arithmetic", facts.arithmetic);
  add("seed", std::to_string(sampling.seed));
  add("temperature", exact(sampling.temperature));
  add("top_k", std::to_string(sampling.top_k));
  add("top_p", exact(sampling.top_p));
  add("min_p", exact(sampling.min_p));
  add("constraints", facts.constraints.empty() ? "none" : to_hex(hash_of(facts.constraints)));
  add("prompt", std::to_string(facts.prompt.size()) + ' ' + to_hex(token_hash(facts.prompt)));
  add("answer",
      std::to_string(facts.answer.size()) + ' ' + to_hex(hash_of(facts.answer, facts.provenance)));
  return text;
}

}  // namespace edgedraft
