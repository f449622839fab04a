#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/privacy/folded_text.h"
#include "client/privacy/private_marks.h"
#include "client/serve/request/request_privacy.h"
#include "shared/base/random.h"
#include "shared/base/text_file.h"
#include "shared/model/utf8.h"

// Private values in every spelling that programs and people write, in every field of a request.
namespace edgedraft::client {
namespace {

using nlohmann::json;

std::u32string code_points(std::string_view text) {
  std::u32string all;
  while (!text.empty()) {
    all += utf8_code_point(text);
    text.remove_prefix(utf8_front(text).byte_count);
  }
  return all;
}

// Replaces each character by the result of `spell`.
template <class Spell>
std::string each(std::string_view text, Spell spell) {
  std::string all;
  for (const char32_t c : code_points(text)) all += spell(c);
  return all;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string formatted(const char* format, std::uint32_t number) {
  char text[32];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

bool is_plain(char32_t c) {
  return c < 0x80 && is_letter_or_digit(c);
}

struct Letter {
  const char* written;
  const char* composed;  // from a letter and an accent
  const char* plain;
};
constexpr Letter kLetters[] = {{"ö", "o\u0308", "o"}, {"ü", "u\u0308", "u"}, {"é", "e\u0301", "e"},
                               {"ó", "o\u0301", "o"}, {"ź", "z\u0301", "z"}, {"ğ", "g\u0306", "g"},
                               {"ş", "s\u0327", "s"}, {"İ", "I\u0307", "I"}, {"Ł", "Ł", "L"},
                               {"ø", "ø", "o"},       {"æ", "æ", "ae"},      {"ı", "ı", "i"},
                               {"đ", "đ", "d"},       {"ß", "ß", "ss"}};

std::string lower(std::string_view text) {
  return each(text, [](char32_t c) { return to_utf8(c >= 'A' && c <= 'Z' ? c + 0x20 : c); });
}
std::string upper(std::string_view text) {
  return each(text, [](char32_t c) { return to_utf8(c >= 'a' && c <= 'z' ? c - 0x20 : c); });
}
std::string units(char32_t c, const char* format) {
  if (c < 0x10000) return formatted(format, c);
  return formatted(format, 0xD7C0 + (c >> 10)) + formatted(format, 0xDC00 + (c & 0x3FF));
}
std::string json_of(std::string_view text) {
  return each(text, [](char32_t c) { return units(c, "\\u%04x"); });
}
std::string entities(std::string_view text, const char* format = "&#%u;") {
  return each(text, [format](char32_t c) { return formatted(format, c); });
}
std::string percent(std::string_view text, bool all, const char* format = "%%%02X") {
  std::string coded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    coded += all || !is_plain(byte) ? formatted(format, byte) : std::string(1, c);
  }
  return coded;
}
std::string between(std::string_view text, const char* separator) {
  std::string all = each(text, [separator](char32_t c) { return to_utf8(c) + separator; });
  all.resize(all.size() - std::string_view(separator).size());
  return all;
}
// Puts `text` into the first word that is long enough.
std::string within_word(std::string_view value, const char* text) {
  std::size_t letters = 0;
  std::string all;
  for (const char32_t c : code_points(value)) {
    all += to_utf8(c);
    letters = is_plain(c) ? letters + 1 : 0;
    if (letters == 2) all += text;
  }
  return all;
}

using Spelling = std::pair<const char*, std::function<std::string(const std::string&)>>;

Spelling replacing(const char* from, const char* to) {
  return {to, [=](const std::string& value) { return replaced(value, from, to); }};
}

std::vector<Spelling> spellings() {
  std::vector<Spelling> all = {
      {"as written", [](const std::string& v) { return v; }},
      {"upper case", upper},
      {"lower case", lower},
      {"combining accents",
       [](std::string v) {
         for (const Letter& one : kLetters) v = replaced(v, one.written, one.composed);
         return v;
       }},
      {"without accents",
       [](std::string v) {
         for (const Letter& one : kLetters) v = replaced(v, one.written, one.plain);
         return v;
       }},
      {"without umlauts",
       [](const std::string& v) { return replaced(replaced(v, "ö", "oe"), "ü", "ue"); }},
      {"wide",
       [](const std::string& v) {
         return each(v, [](char32_t c) { return to_utf8(c > 0x20 && c < 0x7F ? c + 0xFEE0 : c); });
       }},
      {"mathematical",
       [](const std::string& v) {
         return each(v, [](char32_t c) {
           if (c >= 'a' && c <= 'z') return to_utf8(0x1D41A + c - 'a');
           return to_utf8(c >= 'A' && c <= 'Z' ? 0x1D400 + c - 'A' : c);
         });
       }},
      {"Arabic digits",
       [](const std::string& v) {
         return each(v, [](char32_t c) { return to_utf8(c >= '0' && c <= '9' ? c + 0x630 : c); });
       }},
      {"Devanagari digits",
       [](const std::string& v) {
         return each(v, [](char32_t c) { return to_utf8(c >= '0' && c <= '9' ? c + 0x936 : c); });
       }},
      {"„“", [](const std::string& v) { return replaced(replaced(v, " \"", " „"), "\"", "“"); }},
      {"«»", [](const std::string& v) { return replaced(replaced(v, " \"", " «"), "\"", "»"); }},
      {"‹›", [](const std::string& v) { return replaced(replaced(v, " \"", " ‹"), "\"", "›"); }},
      {"「」",
       [](const std::string& v) { return replaced(replaced(v, " \"", " 「"), "\"", "」"); }},
      {"spaced", [](const std::string& v) { return between(v, " "); }},
      {"hyphens", [](const std::string& v) { return between(v, "-"); }},
      {"hyphenated", [](const std::string& v) { return within_word(v, "-\n"); }},
      {"emphasis", [](const std::string& v) { return within_word(v, "**"); }},
      {"JSON",
       [](const std::string& v) {
         const std::string dumped = json(v).dump(-1, ' ', true);
         return dumped.substr(1, dumped.size() - 2);
       }},
      {"all of it in JSON", json_of},
      {"JSON in JSON", [](const std::string& v) { return replaced(json_of(v), "\\", "\\\\"); }},
      {"\\U",
       [](const std::string& v) {
         return each(v, [](char32_t c) { return formatted("\\U%08X", c); });
       }},
      {"\\u{}",
       [](const std::string& v) {
         return each(v, [](char32_t c) { return formatted("\\u{%x}", c); });
       }},
      {"\\x",
       [](const std::string& v) {
         return each(v, [](char32_t c) {
           return c < 0x100 ? formatted("\\x%02x", c) : formatted("\\u%04x", c);
         });
       }},
      {"HTML names",
       [](std::string v) {
         for (const auto& [from, to] : {std::pair{"&", "&amp;"},
                                        {"\"", "&quot;"},
                                        {"'", "&rsquo;"},
                                        {" ", "&nbsp;"},
                                        {"-", "&ndash;"},
                                        {"ö", "&ouml;"},
                                        {"ü", "&uuml;"},
                                        {"é", "&eacute;"},
                                        {"ó", "&oacute;"},
                                        {"ø", "&oslash;"},
                                        {"æ", "&aelig;"},
                                        {"ß", "&szlig;"},
                                        {"Ł", "&Lstrok;"},
                                        {"ı", "&imath;"},
                                        {"İ", "&Idot;"}}) {
           v = replaced(v, from, to);
         }
         return v;
       }},
      {"decimal entities", [](const std::string& v) { return entities(v); }},
      {"hexadecimal entities", [](const std::string& v) { return entities(v, "&#x%x;"); }},
      {"padded entities", [](const std::string& v) { return entities(v, "&#X%07X;"); }},
      {"open entities", [](const std::string& v) { return entities(v, "&#%u"); }},
      {"entities in entities",
       [](const std::string& v) { return replaced(entities(v), "&", "&amp;"); }},
      {"percent", [](const std::string& v) { return percent(v, false); }},
      {"all of it in percent", [](const std::string& v) { return percent(v, true); }},
      {"lower percent", [](const std::string& v) { return percent(v, true, "%%%02x"); }},
      {"percent in percent",
       [](const std::string& v) { return replaced(percent(v, true), "%", "%25"); }},
      {"form", [](const std::string& v) { return replaced(percent(v, false), "%20", "+"); }},
      {"%u",
       [](const std::string& v) {
         return each(v, [](char32_t c) { return units(c, "%%u%04X"); });
       }},
      {"entities in JSON",
       [](const std::string& v) { return replaced(entities(v), "&", "\\u0026"); }},
      {"entities in percent", [](const std::string& v) { return percent(entities(v), false); }},
      {"JSON in entities",
       [](const std::string& v) { return replaced(json_of(v), "\\", "&#92;"); }},
      {"JSON in percent", [](const std::string& v) { return replaced(json_of(v), "\\", "%5c"); }},
  };
  for (const char* const blank : {"\u00A0", "\u202F", "\u2007", "\u2009", "\u3000", "\t", "\r\n> ",
                                  "\n    ", "  ", "\u2028", "\u200B", "_"}) {
    all.push_back(replacing(" ", blank));
  }
  for (const char* const dash : {"\u2010", "\u2011", "\u2013", "\u2014", "\u2212"}) {
    all.push_back(replacing("-", dash));
  }
  for (const char* const quote : {"’", "ʼ", "‘", "`", "´", "′", "＇"}) {
    all.push_back(replacing("'", quote));
  }
  for (const char* const invisible :
       {"\u00AD", "\u200B", "\u200E", "\u2060", "\uFEFF", "\uFE0F", "\U000E0061"}) {
    all.push_back({"invisible", [=](const std::string& v) { return within_word(v, invisible); }});
  }
  return all;
}

std::string any_value(Random& random) {
  constexpr const char* kFirst[] = {"Jörg", "Søren", "Łukasz", "İbrahim", "Zoé",   "Pat",
                                    "Hünd", "Ævar",  "Đorđe",  "Işıl",    "Ramón", "Ann \"Bee\""};
  constexpr const char* kLast[] = {"O'Brien",  "Kowalska-Zyx", "Müller", "Lee & Quist",  "Strauß",
                                   "Źródłowa", "Yağmuroğlu",   "Østby",  "D'Arcy-Höfer", "Quist"};
  std::string value = std::string(kFirst[random.below(std::size(kFirst))]) + " " +
                      kLast[random.below(std::size(kLast))];
  if (random.below(3) == 0) value += " " + std::to_string(10'000 + random.below(90'000));
  return value;
}

constexpr std::string_view kBefore = "Say to ";
constexpr std::string_view kAfter = " today";
constexpr std::string_view kCut = "{q: ";  // arguments that are not JSON

// The request's fields that can hold a text, each of which may be sent.
const std::vector<std::pair<const char*, std::function<void(json&, const std::string&)>>>&
fields() {
  static const std::vector<std::pair<const char*, std::function<void(json&, const std::string&)>>>
      fields = {
          {"system", [](json& b, const std::string& t) { b["messages"][0]["content"] = t; }},
          {"user", [](json& b, const std::string& t) { b["messages"][1]["content"] = t; }},
          {"parts",
           [](json& b, const std::string& t) {
             // Within a character at worst, which no API client can send.
             std::size_t half = t.size() / 2;
             while ((t[half] & 0xC0) == 0x80) ++half;
             b["messages"][1]["content"] = {{{"type", "text"}, {"text", t.substr(0, half)}},
                                            {{"type", "text"}, {"text", t.substr(half)}}};
           }},
          {"assistant", [](json& b, const std::string& t) { b["messages"][2]["content"] = t; }},
          {"reasoning",
           [](json& b, const std::string& t) { b["messages"][2]["reasoning_content"] = t; }},
          {"arguments",
           [](json& b, const std::string& t) {
             b["messages"][2]["tool_calls"][0]["function"]["arguments"] = json{{"q", t}}.dump();
           }},
          {"broken arguments",
           [](json& b, const std::string& t) {
             b["messages"][2]["tool_calls"][0]["function"]["arguments"] = std::string(kCut) + t;
           }},
          {"result", [](json& b, const std::string& t) { b["messages"][3]["content"] = t; }},
          {"prediction",
           [](json& b, const std::string& t) {
             b["prediction"] = {{"type", "content"}, {"content", t}};
           }},
          {"tool",
           [](json& b, const std::string& t) { b["tools"][0]["function"]["description"] = t; }},
          {"enum",
           [](json& b, const std::string& t) {
             b["tools"][0]["function"]["parameters"]["properties"]["p"]["enum"] = {t};
           }},
          {"schema",
           [](json& b, const std::string& t) {
             b["response_format"]["json_schema"]["schema"]["properties"]["p"]["const"] = t;
           }},
          {"stop",
           [](json& b, const std::string& t) {
             b["stop"] = {"\n", t};
           }},
          {"grammar", [](json& b, const std::string& t) { b["grammar"] = t; }},
          {"variable", [](json& b, const std::string& t) { b["chat_template_kwargs"]["of"] = t; }},
          {"prompt",
           [](json& b, const std::string& t) {
             b["prompt"] = {"Hi", t};
           }},
          {"suffix", [](json& b, const std::string& t) { b["suffix"] = t; }},
      };
  return fields;
}

json body_with(const std::string& mode) {
  const json call = {
      {"id", "c1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
  return {{"private", mode},
          {"messages",
           {{{"role", "system"}, {"content", ""}},
            {{"role", "user"}, {"content", ""}},
            {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}},
            {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", ""}}}},
          {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}},
          {"response_format", {{"type", "json_schema"}}}};
}

// Appends all texts of a body.
void append_texts(const json& value, std::string& texts) {
  if (value.is_string()) texts += value.get<std::string>() + "\n";
  for (const auto& [key, member] : value.items()) {
    if (value.is_structured()) append_texts(member, texts);
  }
}

class PrivateSpellingTest : public ::testing::Test {
 protected:
  static std::size_t value_count() {
    const char* const wanted = std::getenv("EDGEDRAFT_TEST_SPELLINGS");
    return wanted != nullptr ? std::stoul(wanted) : 12;
  }
  PrivacyGuard guard_of(const std::string& value, bool is_listed) {
    PrivacyGuard guard({.names = is_listed ? std::vector{value} : std::vector<std::string>{}});
    if (is_listed) return guard;
    json body = body_with("mask");
    body["messages"][1]["content"] = "<private>" + value + "</private>";
    EXPECT_TRUE(take(body, guard));
    return guard;
  }
  ApiResult<PrivateRequest> take(const json& body, PrivacyGuard& guard) {
    return take_out_private(body.dump(), guard, bundle_.tokenizer());
  }
  // The letters and digits of a body's texts that are neither placeholders nor its own.
  static std::string rest_of(const json& body) {
    std::string own;
    append_texts(body_with("mask"), own);
    std::string texts;
    append_texts(body, texts);
    for (const std::string_view known : {kBefore, kAfter, kCut}) {
      texts = replaced(texts, known, "");
    }
    std::string rest;
    std::set<std::string> words;
    for (std::size_t at = 0; at < own.size();) {
      const std::size_t end = own.find('\n', at);
      words.insert(own.substr(at, end - at));
      at = end + 1;
    }
    words.insert({"Hi", "text", "content", "prefix", "local", "{\"q\":\"\"}"});
    for (std::size_t at = texts.find('['); at != texts.npos; at = texts.find('[', at)) {
      is_placeholder(texts.substr(at, kPlaceholderBytes)) ? texts.erase(at, kPlaceholderBytes)
                                                          : texts.erase(at, 1);
    }
    for (std::size_t at = 0; at < texts.size();) {
      const std::size_t end = texts.find('\n', at);
      const std::string line = texts.substr(at, end - at);
      if (!words.contains(line) && !compact(fold(line)).text.empty()) rest += line + "\n";
      at = end + 1;
    }
    return rest;
  }

  BundleFile bundle_ =
      BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value();
};

// EDGEDRAFT_TEST_SPELLINGS sets the number of values.
TEST_F(PrivateSpellingTest, NoFieldSendsAnySpelling) {
  const std::vector<Spelling> all = spellings();
  EXPECT_GE(all.size(), 60u);
  Random random(7);
  std::set<std::pair<std::string, std::string>> failed;  // spelling and field
  for (std::size_t i = 0; i < value_count(); ++i) {
    const std::string value = any_value(random);
    PrivacyGuard guard = guard_of(value, i % 2 == 0);
    for (const auto& [name, spell] : all) {
      const std::string text = std::string(kBefore) + spell(value) + std::string(kAfter);
      json body = body_with("mask");
      for (const auto& [field, put] : fields()) put(body, text);
      const auto request = take(body, guard);
      ASSERT_TRUE(request) << request.error().message;
      const std::string rest = rest_of(json::parse(request->body));
      if (!rest.empty() && failed.insert({name, "all"}).second) {
        ADD_FAILURE() << value << ", " << name << ": " << rest;
      }
      for (const char* const mode : {"local", "prefix"}) {
        const auto& [field, put] = fields()[random.below(fields().size())];
        json one = body_with(mode);
        put(one, text);
        const auto kept = take(one, guard);
        const bool stays = kept && kept->privacy.is_local &&
                           (!kept->masked || rest_of(json::parse(kept->masked->body)).empty());
        if (!stays && failed.insert({name, mode}).second) {
          ADD_FAILURE() << mode << ": " << value << ", " << name << " in " << field;
        }
      }
    }
  }
}

// Names and biases cannot be masked.
TEST_F(PrivateSpellingTest, RefusesAnySpellingInNamesAndBiases) {
  Random random(8);
  for (std::size_t i = 0; i < value_count(); ++i) {
    const std::string value = any_value(random);
    PrivacyGuard guard = guard_of(value, i % 2 == 0);
    for (const auto& [name, spell] : spellings()) {
      json named = body_with("mask");
      named["tools"][0]["function"]["parameters"]["properties"][spell(value)] = {
          {"type", "string"}};
      json called = body_with("mask");
      called["messages"][2]["tool_calls"][0]["function"]["name"] = spell(value);
      for (const json& body : {named, called}) {
        const auto request = take(body, guard);
        ASSERT_FALSE(request) << value << ", " << name;
        EXPECT_EQ(request.error().code, "private_name");
      }
    }
    json biased = body_with("mask");
    for (const std::uint32_t token : bundle_.tokenizer().encode(MarkedText::foreign(value))) {
      biased["logit_bias"][std::to_string(token)] = -100;
    }
    EXPECT_FALSE(take(biased, guard)) << value;
  }
}

TEST_F(PrivateSpellingTest, HidesValuesSplitAtAnyPlace) {
  Random random(9);
  for (std::size_t i = 0; i < value_count(); ++i) {
    const std::string value = any_value(random);
    PrivacyGuard guard = guard_of(value, i % 2 == 0);
    const std::u32string letters = code_points(value);
    const std::size_t first = 1 + random.below(letters.size() - 2);
    const std::size_t second = first + 1 + random.below(letters.size() - first - 1);
    const auto part = [&](std::size_t begin, std::size_t end) {
      std::string text;
      for (const char32_t c : letters.substr(begin, end - begin)) text += to_utf8(c);
      return text;
    };
    const std::string a = part(0, first);
    const std::string b = part(first, second);
    const std::string c = part(second, letters.size());
    const json split[] = {{a, b, c}, {a, {b, c}}, {{a}, {b}, {c}}, {{a, b}, {{"x", c}}}};
    for (const json& pieces : split) {
      json body = body_with("mask");
      body["tools"][0]["function"]["parameters"]["enum"] = pieces;
      body["chat_template_kwargs"]["of"] = pieces;
      body["messages"][2]["tool_calls"][0]["function"]["arguments"] = pieces.dump();
      body["stop"] = {a, b, c};
      body["grammar"] = "root ::= " + json(a).dump() + " " + json(b).dump() + " " + json(c).dump();
      const auto request = take(body, guard);
      ASSERT_TRUE(request);
      const json sent = json::parse(request->body);
      for (const json& field : {sent["tools"], sent["chat_template_kwargs"], sent["messages"][2],
                                sent["stop"], sent["grammar"]}) {
        std::string texts;
        append_texts(field, texts);
        texts = replaced(texts, "root ::=", "");
        EXPECT_EQ(guard.finds(texts), false) << value << ": " << texts;
      }
    }
  }
}

TEST_F(PrivateSpellingTest, EscapedMarkTeachesMeaning) {
  PrivacyGuard guard({});
  json body = body_with("mask");
  body["messages"][3]["content"] =
      R"({"name": "\u003cprivate\u003eJ\u00f6rg Qu\u00efst\u003c/private\u003e"})";
  ASSERT_TRUE(take(body, guard));
  body["messages"][3]["content"] = "Jörg Quïst";
  const auto request = take(body, guard);
  ASSERT_TRUE(request);
  EXPECT_EQ(json::parse(request->body)["messages"][3]["content"], "[TEXT_001]");
}

// Ordinary text beside 200 private values, with all detectors.
TEST_F(PrivateSpellingTest, FindsLittleInOrdinaryText) {
  PrivacyGuard guard({.detects = {std::begin(kDetectedTypes), std::end(kDetectedTypes)}});
  Random random(10);
  for (int i = 0; i < 200; ++i) guard.vault().add(any_value(random), PrivateType::text);
  std::string text;
  for (const auto& page : std::filesystem::directory_iterator(EDGEDRAFT_TEST_DATA "/../../docs")) {
    if (page.path().extension() == ".md") text += read_text(page.path(), 1u << 20).value() + "\n";
  }
  std::size_t words = 0;
  bool within = false;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\n';
    if (!is_blank && !within) ++words;
    within = !is_blank;
  }
  std::vector<PrivateSpan> found = guard.vault().find(text);
  for (const PrivateSpan& span : detected_in(text, guard.detectors())) found.push_back(span);
  join_overlapping(found);
  std::string list;
  for (const PrivateSpan& span : found) {
    list += std::string(to_string(span.type)) + ": " +
            text.substr(span.begin, span.end - span.begin) + "\n";
  }
  std::printf("%zu of %zu words (%zu bytes)\n%s", found.size(), words, text.size(), list.c_str());
  EXPECT_LT(1'000 * found.size(), words);
}

}  // namespace
}  // namespace edgedraft::client
