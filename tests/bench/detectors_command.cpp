#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/privacy/detectors.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "shared/base/text_file.h"
#include "shared/model/utf8.h"
#include "shared/program/program.h"
#include "tests/bench/commands.h"

namespace edgedraft::bench {
using namespace client;
namespace {

struct DetectorsOptions {
  std::uint32_t examples = 1000;  // of each form
  std::uint64_t seed = 1;
  std::vector<std::filesystem::path> data;
  bool json = false;
};

constexpr PrivateType kTypes[] = {PrivateType::mail, PrivateType::phone,   PrivateType::card,
                                  PrivateType::iban, PrivateType::address, PrivateType::key};
constexpr std::uint64_t kDataBytesMax = 256u << 20;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// Realistic values with valid check digits.
class Examples {
 public:
  explicit Examples(std::uint64_t seed) : random_(seed) {}

  std::string one_of(std::initializer_list<const char*> list) {
    return *(list.begin() + random_.below(list.size()));
  }
  std::string some(std::string_view alphabet, std::size_t least, std::size_t most) {
    std::string text(least + random_.below(most - least + 1), ' ');
    for (char& c : text) c = alphabet[random_.below(alphabet.size())];
    return text;
  }
  // "9" becomes a digit, "8" one that is not 0.
  std::string digits(std::string form) {
    for (char& c : form) {
      if (c == '9') c = static_cast<char>('0' + random_.below(10));
      if (c == '8') c = static_cast<char>('1' + random_.below(9));
    }
    return form;
  }
  std::string name() {
    return one_of({"Anna", "Ben", "Chloé", "Dmitri", "Eve", "Farid", "Greta", "Hugo"});
  }
  std::string capital() {
    std::string word = some(kLower, 4, 9);
    word[0] = static_cast<char>(word[0] - 'a' + 'A');
    return word;
  }
  std::string domain() {
    return some(kLower, 3, 12) + "." +
           one_of({"com", "org", "de", "co.uk", "fr", "io", "photography", "museum", "edu.au"});
  }
  std::string card(std::string_view first, std::size_t size) {
    std::string number =
        std::string(first) + some(kDigits, size - first.size() - 1, size - first.size() - 1);
    int sum = 0;
    for (std::size_t i = 0; i < number.size(); ++i) {
      int digit = number[number.size() - 1 - i] - '0';
      if (i % 2 == 0) digit = digit > 4 ? 2 * digit - 9 : 2 * digit;
      sum += digit;
    }
    return number + static_cast<char>('0' + (10 - sum % 10) % 10);
  }
  std::string iban() {
    static constexpr std::pair<const char*, const char*> kForms[] = {
        {"DE", "999999999999999999"},
        {"GB", "AAAA99999999999999"},
        {"FR", "99999999999999999999999"},
        {"ES", "99999999999999999999"},
        {"NL", "AAAA9999999999"},
        {"CH", "99999999999999999"},
        {"NO", "99999999999"},
        {"PL", "999999999999999999999999"}};
    const auto& [country, form] = kForms[random_.below(std::size(kForms))];
    std::string body = digits(form);
    for (char& c : body) {
      if (c == 'A') c = static_cast<char>('A' + random_.below(26));
    }
    int rest = 0;
    for (const char c : body + country + "00") {
      rest = c <= '9' ? (10 * rest + (c - '0')) % 97 : (100 * rest + (c - 'A' + 10)) % 97;
    }
    const std::string check = std::to_string(98 - rest);
    return country + std::string(2 - check.size(), '0') + check + body;
  }
  static std::string grouped(const std::string& text, std::size_t size, char by) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i > 0 && i % size == 0) result += by;
      result += text[i];
    }
    return result;
  }
  std::string ip6() {
    std::string text;
    const bool shortened = random_.below(2) == 0;
    const std::size_t groups = shortened ? 4 : 8;
    for (std::size_t i = 0; i < groups; ++i) {
      text += (i == 0 ? "" : shortened && i == 2 ? "::" : ":") + some(kHex, 1, 4);
    }
    return text;
  }

 private:
  Random random_;
};

struct Form {
  PrivateType type;
  const char* name;
  std::function<std::string(Examples&)> make;
};

const std::vector<Form>& forms() {
  using E = Examples;
  using P = PrivateType;
  static const std::vector<Form> forms = {
      {P::mail, "name@domain", [](E& e) { return e.some(kLower, 2, 10) + "@" + e.domain(); }},
      {P::mail, "with dots, signs and digits",
       [](E& e) {
         return e.some(kLower, 2, 8) + e.one_of({".", "_", "-", "+"}) + e.some(kLower, 2, 8) +
                e.digits("99") + "@" + e.some(kLower, 2, 6) + "." + e.domain();
       }},
      {P::phone, "+49 170 1234567",
       [](E& e) {
         return e.digits(e.one_of({"+49 188 9999999", "+44 20 8999 9999", "+33 8 99 99 99 99",
                                   "+1-888-899-9999", "+49 (30) 8999-999", "+41 79 899 99 99"}));
       }},
      {P::phone, "0170 1234567",
       [](E& e) {
         return e.digits(e.one_of({"0170 8999999", "030/8999999", "089-8999999", "01708999999",
                                   "06 89 99 99 99", "020 8999 9999", "0049 170 8999999"}));
       }},
      {P::phone, "(555) 867-5309",
       [](E& e) {
         return e.digits(
             e.one_of({"(888) 899-9999", "888-899-9999", "888.899.9999", "888 899 9999"}));
       }},
      {P::card, "4111 1111 1111 1111",
       [](E& e) {
         return E::grouped(e.card(e.one_of({"4", "51", "55", "6011", "2221"}), 16), 4,
                           e.one_of({" ", "-"})[0]);
       }},
      {P::card, "4111111111111111",
       [](E& e) {
         return e.card(e.one_of({"4", "51", "6011"}), 16);
       }},
      {P::card, "3782 822463 10005",
       [](E& e) {
         std::string card = e.card(e.one_of({"34", "37"}), 15);
         return card.insert(10, " ").insert(4, " ");
       }},
      {P::iban, "DE89 3704 0044 0532 0130 00", [](E& e) { return E::grouped(e.iban(), 4, ' '); }},
      {P::iban, "DE89370400440532013000", [](E& e) { return e.iban(); }},
      {P::address, "203.0.113.7",
       [](E& e) { return e.digits("8") + e.digits("8.8.89.") + e.digits("89"); }},
      {P::address, "2001:db8::8a2e:370", [](E& e) { return e.ip6(); }},
      {P::address, "12 Main Street",
       [](E& e) {
         return e.digits(e.one_of({"8", "89", "8999"})) + " " + e.capital() + " " +
                e.one_of({"Street", "St.", "Avenue", "Road", "Lane", "Drive", "Court"});
       }},
      {P::address, "Hauptstr. 12",
       [](E& e) {
         return e.capital() + e.one_of({"straße", "str.", "weg", "platz", "allee"}) + " " +
                e.digits(e.one_of({"8", "89", "8a"}));
       }},
      {P::address, "10 rue de Rivoli",
       [](E& e) { return e.digits("89") + " rue de " + e.capital(); }},
      {P::key, "known prefixes",
       [](E& e) {
         return e.one_of({"sk-", "ghp_", "glpat-", "xoxb-", "AIza", "hf_", "npm_"}) +
                e.some(kBase64, 24, 40);
       }},
      {P::key, "hexadecimal", [](E& e) { return e.some(kHex, 32, 64); }},
      {P::key, "letters and digits", [](E& e) { return e.some(kBase64, 24, 48); }},
      {P::key, "passwords of 12 characters",
       [](E& e) {
         return e.some(kBase64, 11, 11) + e.one_of({"!", "#", "?"});
       }},
  };
  return forms;
}

// Published examples: test numbers of card networks and payment services, the IBAN registry, RFC
// 3849, 5321, 5737 and 7519, Ofcom's and the NANPA's numbers for drama, and key examples from
// providers' manuals.
const std::vector<std::pair<PrivateType, std::vector<const char*>>>& published() {
  using P = PrivateType;
  static const std::vector<std::pair<PrivateType, std::vector<const char*>>> published = {
      {P::mail,
       {"simple@example.com", "very.common@example.com", "x@example.com",
        "long.email-address-with-hyphens@and.subdomains.example.com",
        "user.name+tag+sorting@example.com", "name/surname@example.com", "admin@example",
        "example@s.example", "\"john..doe\"@example.org", "mailhost!username@example.org",
        "user%example.com@example.org", "user-@example.org", "postmaster@[123.123.123.123]",
        "dörte@sörensen.example.com"}},
      {P::phone,
       {"+1-201-555-0123", "+44 1632 960983", "01632 960123", "020 7946 0958", "07700 900461",
        "(202) 555-0143", "202-555-0143", "+49 30 23125 014", "0152 28817386", "+33 1 99 00 12 34",
        "+61 1900 654 321", "1-800-555-0199"}},
      {P::card,
       {"4242424242424242", "4000 0566 5566 5556", "5555555555554444", "2223 0031 2200 3222",
        "378282246310005", "371449635398431", "6011111111111117", "30569309025904",
        "3530111333300000", "6200000000000005", "4012888888881881", "5105-1051-0510-5100"}},
      {P::iban,
       {"AD12 0001 2030 2003 5910 0100", "AT611904300234573201", "BE68 5390 0754 7034",
        "BR1500000000000010932840814P2", "CH9300762011623852957", "DE75 5121 0800 1245 1261 99",
        "ES7921000813610123456789", "FR7630006000011234567890189", "GB33BUKB20201555555555",
        "IT60X0542811101000000123456", "MT31MALT01100000000000000000123", "NL02ABNA0123456789",
        "NO8330001234567", "PL10105000997603123456789123", "SE7280000810340009783242"}},
      {P::address,
       {"192.0.2.17", "198.51.100.23", "203.0.113.99", "2001:db8::1",
        "2001:db8:85a3::8a2e:370:7334", "221B Baker Street", "1600 Pennsylvania Avenue NW",
        "10 Downing Street", "350 Fifth Avenue", "Platz der Republik 1", "Unter den Linden 77",
        "Willy-Brandt-Straße 1", "55 Rue du Faubourg Saint-Honoré"}},
      {P::key,
       {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy", "sk_test_4eC39HqLyjWDarjtT1zdp7dc",
        "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",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_"
        "XgL0n3I9PlFUP0THsR8U",
        "d41d8cd98f00b204e9800998ecf8427e"}},
  };
  return published;
}

// Within a sentence.
std::pair<std::string, PrivateSpan> sentence(Examples& examples, const Form& form) {
  const std::string before = examples.one_of({"Please write to ", "It is ", "My friend gave me ",
                                              "(see ", "Das ist ", "use:\n", "\"", "C'est "});
  const std::string behind = examples.one_of({", and answer soon.", ".", " until Monday.", ")",
                                              "\n", "\" he said", "", "; the other is old"});
  const std::string value = form.make(examples);
  const PrivateSpan span{
      .begin = before.size(), .end = before.size() + value.size(), .type = form.type};
  return {before + value + behind, span};
}

void declare_detectors(CLI::App& app, DetectorsOptions& options) {
  app.add_option("--examples", options.examples, "How many values of each form to generate")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the generated values")->capture_default_str();
  app.add_option("--data", options.data, "Texts without private values (UTF-8; repeatable)")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app.add_flag("--json", options.json, "JSON instead of a table");
  app.footer(
      "Writes values of many forms into sentences, with check digits that hold, and prints how "
      "many "
      "of them\nthe detectors cover whole, whatever they take them for. With --data, how often "
      "they "
      "find something in\nthese texts, which should hold nothing private.");
}

// Prints how many values of each form the detectors of private text find, and their findings in
// texts without private values.
Result<int> run_detectors(const DetectorsOptions& options) {
  const auto detectors = make_detectors(kTypes);
  Examples examples(options.seed);
  const auto is_covered = [&detectors](const std::pair<std::string, PrivateSpan>& example) {
    const auto& [text, value] = example;
    return std::ranges::any_of(detected_in(text, detectors), [&value](const PrivateSpan& span) {
      return span.begin <= value.begin && span.end >= value.end;
    });
  };
  nlohmann::ordered_json report;
  for (const Form& form : forms()) {
    std::uint32_t covered = 0;
    for (std::uint32_t i = 0; i < options.examples; ++i) {
      covered += is_covered(sentence(examples, form)) ? 1u : 0u;
    }
    report["recall"].push_back({{"type", to_string(form.type)},
                                {"form", form.name},
                                {"examples", options.examples},
                                {"found", covered}});
  }
  for (const auto& [type, values] : published()) {
    std::uint32_t covered = 0;
    for (const char* const value : values) {
      const Form form{.type = type, .name = "", .make = [value](Examples&) { return value; }};
      covered += is_covered(sentence(examples, form)) ? 1u : 0u;
    }
    report["recall"].push_back({{"type", to_string(type)},
                                {"form", "published examples"},
                                {"examples", values.size()},
                                {"found", covered}});
  }
  for (const std::filesystem::path& file : options.data) {
    const auto text = read_text(file, kDataBytesMax);
    if (!text) return text.error();
    if (!is_valid_utf8(*text)) return Error{Errc::usage, file.string() + ": it is no UTF-8 text"};
    std::map<std::string, std::uint64_t> counts;
    for (const PrivateType type : kTypes) counts[std::string(to_string(type))] = 0;
    for (const PrivateSpan& span : detected_in(*text, detectors)) {
      ++counts[std::string(to_string(span.type))];
    }
    report["texts"].push_back(
        {{"file", file.filename().string()}, {"bytes", text->size()}, {"found", counts}});
  }
  if (options.json) {
    std::cout << report.dump(2) << std::endl;
    return 0;
  }
  for (const auto& row : report["recall"]) {
    std::cout << std::left << std::setw(9) << row["type"].get<std::string>() << std::setw(30)
              << row["form"].get<std::string>() << std::right << std::fixed << std::setprecision(3)
              << row["found"].get<double>() / row["examples"].get<double>() << "  of "
              << row["examples"] << '\n';
  }
  for (const auto& row : report.value("texts", nlohmann::ordered_json::array())) {
    std::cout << row["file"].get<std::string>() << ", " << row["bytes"] << " bytes:";
    for (const auto& [type, count] : row["found"].items()) std::cout << ' ' << type << ' ' << count;
    std::cout << '\n';
  }
  return 0;
}

}  // namespace

void add_detectors(Program& program) {
  static DetectorsOptions options;
  program.command("detectors", "How much of private text is found without a mark", options,
                  declare_detectors, run_detectors);
}

}  // namespace edgedraft::bench
