#include "client/receipts/receipt_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "shared/protocol/limits.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kCertificateBytesMax = 64u << 10;

// Reads fields of a JSON object; the first error is kept.
class Fields {
 public:
  Fields(const json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) refuse("", "an object");
  }

  void refuse(std::string_view name, const std::string& expected) {
    if (error_) return;
    const std::string of_object = path_.substr(0, path_.size() - (path_.empty() ? 0 : 1));
    const std::string field = name.empty() ? of_object : path_ + std::string(name);
    error_ = Error{Errc::bad_file, field + ": expected " + expected};
  }
  const std::optional<Error>& error() const { return error_; }
  void take(const Fields& other) {
    if (!error_) error_ = other.error_;
  }

  const json& get(std::string_view name) const {
    static const json null;
    if (!object_.is_object()) return null;
    const auto found = object_.find(name);
    return found == object_.end() ? null : *found;
  }

  float number(std::string_view name, double min, double max) {
    const json& value = get(name);
    const double read = value.is_number() ? value.get<double>() : max + 1.0;
    if (read >= min && read <= max) return static_cast<float>(read);
    refuse(name, "a number from " + json(min).dump() + " to " + json(max).dump());
    return 0.0f;
  }

  std::uint64_t whole(std::string_view name, std::uint64_t max) {
    const json& value = get(name);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= max) {
      return value.get<std::uint64_t>();
    }
    refuse(name, "a whole number up to " + std::to_string(max));
    return 0;
  }

  std::string text(std::string_view name, std::size_t bytes_max) {
    const json& value = get(name);
    if (value.is_string() && value.get_ref<const std::string&>().size() <= bytes_max) {
      return value.get<std::string>();
    }
    refuse(name, "a text of up to " + std::to_string(bytes_max) + " bytes");
    return {};
  }

  Bytes hex(std::string_view name, std::size_t bytes_max) {
    const std::string digits = text(name, 2 * bytes_max);
    auto bytes = from_hex(digits);
    if (bytes && !bytes->empty()) return *std::move(bytes);
    refuse(name, "hexadecimal digits");
    return {};
  }

  const json& array(std::string_view name, std::size_t min, std::size_t max) {
    static const json none = json::array();
    const json& value = get(name);
    if (value.is_array() && value.size() >= min && value.size() <= max) return value;
    refuse(name, "an array of " + std::to_string(min) + " to " + std::to_string(max) + " elements");
    return none;
  }

  std::vector<std::uint32_t> tokens(std::string_view name, std::size_t min) {
    std::vector<std::uint32_t> ids;
    for (const json& token : array(name, min, kContextCountMax)) {
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() >= kTokenIdEnd) {
        refuse(name, "token ids");
        break;
      }
      ids.push_back(token.get<std::uint32_t>());
    }
    return ids;
  }

 private:
  const json& object_;
  std::string path_;
  std::optional<Error> error_;
};

SamplingParams read_sampling(Fields& f) {
  Fields s(f.get("sampling"), "sampling.");
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
  const SamplingParams sampling{
      .temperature = s.number("temperature", 0.0, 100.0),
      .top_k = static_cast<std::uint32_t>(s.whole("top_k", kMax)),
      .top_p = s.number("top_p", std::numeric_limits<float>::denorm_min(), 1.0),
      .min_p = s.number("min_p", 0.0, 1.0),
      .seed = s.whole("seed", std::numeric_limits<std::uint64_t>::max())};
  f.take(s);
  return sampling;
}

Constraints read_constraints(Fields& f) {
  Constraints constraints;
  if (f.get("constraints").is_null()) return constraints;
  Fields c(f.get("constraints"), "constraints.");
  constraints.answer_begin = static_cast<std::uint32_t>(c.whole("answer_begin", kContextCountMax));
  for (const json& stop : c.array("stops", 0, kStopsMax)) {
    const bool is_right = stop.is_string() && !stop.get_ref<const std::string&>().empty() &&
                          stop.get_ref<const std::string&>().size() <= kStopBytesMax;
    if (is_right) constraints.stops.push_back(stop.get<std::string>());
    if (!is_right) c.refuse("stops", "texts of 1 to " + std::to_string(kStopBytesMax) + " bytes");
  }
  const std::vector<std::uint32_t> tokens = c.tokens("bias_tokens", 0);
  const json& biases = c.array("biases", tokens.size(), tokens.size());
  if (tokens.size() > kBiasesMax) c.refuse("bias_tokens", "fewer tokens");
  for (std::size_t i = 0; i < biases.size() && !c.error(); ++i) {
    const double bias = biases[i].is_number() ? biases[i].get<double>() : kBiasMax + 1.0;
    if (!(bias >= -kBiasMax && bias <= kBiasMax)) {
      c.refuse("biases", "numbers from -1000 to 1000");
      break;
    }
    constraints.biases.push_back({.token = tokens[i], .bias = static_cast<float>(bias)});
  }
  constraints.presence_penalty = c.number("presence_penalty", -kBiasMax, kBiasMax);
  constraints.frequency_penalty = c.number("frequency_penalty", -kBiasMax, kBiasMax);
  constraints.grammar = c.text("grammar", kGrammarBytesMax);
  f.take(c);
  return constraints;
}

std::vector<Attested> read_provenance(Fields& f, std::size_t count) {
  std::vector<Attested> provenance;
  for (const json& origin : f.array("provenance", count, count)) {
    const std::string name = origin.is_string() ? origin.get<std::string>() : std::string();
    const bool is_checked = name == to_string(Attested::checked);
    if (!is_checked && name != to_string(Attested::chosen)) {
      f.refuse("provenance", "'checked' or 'chosen' per token of the answer");
      break;
    }
    provenance.push_back(is_checked ? Attested::checked : Attested::chosen);
  }
  return provenance;
}

ordered_json to_object(const Constraints& constraints) {
  if (constraints.empty()) return nullptr;
  ordered_json tokens = ordered_json::array();
  ordered_json biases = ordered_json::array();
  for (const Constraints::Bias& bias : constraints.biases) {
    tokens.push_back(bias.token);
    biases.push_back(bias.bias);
  }
  return {{"answer_begin", constraints.answer_begin},
          {"stops", constraints.stops},
          {"bias_tokens", tokens},
          {"biases", biases},
          {"presence_penalty", constraints.presence_penalty},
          {"frequency_penalty", constraints.frequency_penalty},
          {"grammar", constraints.grammar}};
}

}  // namespace

std::string Receipt::statement() const {
  return receipt_statement({.target = target,
                            .arithmetic = arithmetic,
                            .sampling = sampling,
                            .constraints = constraints,
                            .prompt = prompt,
                            .answer = answer,
                            .provenance = provenance});
}

std::string to_json(const Receipt& receipt) {
  ordered_json provenance = ordered_json::array();
  for (const Attested origin : receipt.provenance) provenance.push_back(to_string(origin));
  const ordered_json object = {{"edgedraft_receipt", kVersion},
                               {"target", to_hex(receipt.target)},
                               {"arithmetic", receipt.arithmetic},
                               {"sampling",
                                {{"seed", receipt.sampling.seed},
                                 {"temperature", receipt.sampling.temperature},
                                 {"top_k", receipt.sampling.top_k},
                                 {"top_p", receipt.sampling.top_p},
                                 {"min_p", receipt.sampling.min_p}}},
                               {"constraints", to_object(receipt.constraints)},
                               {"prompt", receipt.prompt},
                               {"answer", receipt.answer},
                               {"provenance", provenance},
                               {"certificate", to_hex(receipt.certificate)},
                               {"signature", to_hex(receipt.signature)}};
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<Receipt> parse_receipt(std::string_view text) {
  if (text.size() > kReceiptFileBytesMax) return Error{Errc::bad_file, "too large for a receipt"};
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object() || object.value("edgedraft_receipt", json()) != kVersion) {
    return Error{Errc::bad_file, "not a receipt: expected a file written by --receipt"};
  }
  Fields f(object, "");
  Receipt receipt;
  const Bytes target = f.hex("target", receipt.target.size());
  if (target.size() != receipt.target.size()) f.refuse("target", "64 hexadecimal digits");
  std::copy_n(target.begin(), std::min(target.size(), receipt.target.size()),
              receipt.target.begin());
  receipt.arithmetic = f.text("arithmetic", kTextBytesMax);
  // A line break could pass for another line of the statement.
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::ranges::any_of(receipt.arithmetic, is_control)) f.refuse("arithmetic", "one line");
  receipt.sampling = read_sampling(f);
  receipt.constraints = read_constraints(f);
  receipt.prompt = f.tokens("prompt", 1);
  receipt.answer = f.tokens("answer", 1);
  receipt.provenance = read_provenance(f, receipt.answer.size());
  receipt.certificate = f.hex("certificate", kCertificateBytesMax);
  receipt.signature = f.hex("signature", kReceiptBytesMax);
  if (f.error()) return *f.error();
  return receipt;
}

}  // namespace edgedraft::client
