#include "client/serve/request/request_privacy.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/privacy/folded_text.h"
#include "client/serve/json/json_tokens.h"
#include "client/serve/request/completion_request.h"

// Text removed from a request's body.
namespace edgedraft::client {
namespace {

using nlohmann::json;

TEST(JsonTokensTest, LocatesTextsAndNumbers) {
  const std::string text = R"({"a" : [1, -2.50e+3, "b\"c\\", true], "a":null})";
  std::vector<std::string> written;
  for (const JsonToken& token : json_tokens(text)) {
    const char* const kind = token.kind == JsonToken::Kind::key    ? "key "
                             : token.kind == JsonToken::Kind::text ? "text "
                                                                   : "number ";
    written.push_back(kind + text.substr(token.begin, token.end - token.begin));
  }
  EXPECT_EQ(written, (std::vector<std::string>{R"(key "a")", "number 1", "number -2.50e+3",
                                               R"(text "b\"c\\")", R"(key "a")"}));
  EXPECT_TRUE(json_tokens("").empty());
}

json chat(json content, json fields = json::object()) {
  fields["messages"] = {{{"role", "user"}, {"content", std::move(content)}}};
  return fields;
}

class RequestPrivacyTest : public ::testing::Test {
 protected:
  ApiResult<PrivateRequest> taken(const json& body) {
    return take_out_private(body.dump(), guard_, bundle_.tokenizer());
  }
  std::string code(const json& body) {
    const auto request = taken(body);
    return request ? "" : request.error().code;
  }
  // The body that is sent for an accepted request.
  json sent_body(const json& body) {
    const auto request = taken(body);
    EXPECT_TRUE(request);
    return request ? json::parse(request->body) : json();
  }
  void teach(const std::string& text) { EXPECT_EQ(code(chat(text)), ""); }
  static json history_of(const std::string& arguments, const std::string& name = "f") {
    const json function = {{"name", name}, {"arguments", arguments}};
    const json call = {
        {"id", "call_a8F3kLm29QzXv71Bc0Wd"}, {"type", "function"}, {"function", function}};
    const json said = {{"role", "assistant"}, {"tool_calls", {call}}};
    const json result = {
        {"role", "tool"}, {"tool_call_id", "call_a8F3kLm29QzXv71Bc0Wd"}, {"content", "done"}};
    return {{"messages", {{{"role", "user"}, {"content", "Go on."}}, said, result}}};
  }
  std::string sent(const std::string& arguments) {
    const auto request = taken(history_of(arguments));
    if (!request) return request.error().message;
    return json::parse(request->body)["messages"][1]["tool_calls"][0]["function"]["arguments"];
  }
  static json tools_of(const json& parameters) {
    const json function = {{"name", "f"}, {"parameters", parameters}};
    return chat("Go on.", {{"tools", {{{"type", "function"}, {"function", function}}}}});
  }

  BundleFile bundle_ =
      BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value();
  PrivacyGuard guard_{{.detects = {PrivateType::mail, PrivateType::key}}};
};

// Keys and fields called "name" are values too, and a number is matched as written.
TEST_F(RequestPrivacyTest, MasksCallArgumentsAsWritten) {
  teach(
      "I am <private>Annabel Quist</private>: <private>1234.50</private> to "
      "<private>48213977482139774821397</private>, <private>\"pin\": 77</private>.");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"name": "Annabel Quist"})", R"({"name": "[TEXT_001]"})"},
      {R"({"type":"ANNABEL quist"})", R"({"type":"[TEXT_001]"})"},
      {R"({"required": ["zoe@lee.org"]})", R"({"required": ["[MAIL_001]"]})"},
      {R"({"name": "ann@lee.org"})", R"({"name": "[MAIL_001]"})"},
      {R"({"bob@lee.org": {"annabel quist": 1}})", R"({"[MAIL_001]": {"[TEXT_001]": 1}})"},
      {R"({"to": "Annabel\u0020Quist", "by": "\u0041"})",
       R"({"to": "[TEXT_001]", "by": "\u0041"})"},
      {R"({"amount": 1234.50, "rate": 7.10})", R"({"amount": "[TEXT_001]", "rate": 7.10})"},
      {R"({"to":48213977482139774821397})", R"({"to":"[TEXT_001]"})"},
      {R"({"to": "Annabel Quist", "to": 1})", R"({"to": "[TEXT_001]", "to": 1})"},
      // Across several values, and over their separators.
      {R"({"to": [482139774, 82139774821397]})", R"({"private":"[TEXT_001]"})"},
      {R"({"user": 1, "pin": 77})", R"({"private":"[TEXT_001]"})"},
      {R"({"user": 1, "pin": 78.0})", R"({"user": 1, "pin": 78.0})"},
      {"to Annabel Quist", "to [TEXT_001]"},
  };
  for (const auto& [written, expected] : cases) EXPECT_EQ(sent(written), expected);
}

// Spelled as by Python's json.dumps(): in JSON, in truncated JSON, and in JSON within JSON.
TEST_F(RequestPrivacyTest, EscapesHideNothing) {
  teach("I am <private>Jörg Müller</private>, of <private>12 Main Street\nSpringfield</private>.");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"name": "J\u00f6rg M\u00fcller")", R"({"name": "[TEXT_001]")"},
      {R"({"at": "12 Main Street\nSpringfield)", R"({"at": "[TEXT_001])"},
      {R"({"body": "{\"name\": \"J\\u00f6rg M\\u00fcller\"}"})",
       R"({"body":"{\"name\": \"[TEXT_001]\"}"})"},
      {R"(mail zoe\u0040lee.org)", "mail [MAIL_001]"},
  };
  for (const auto& [written, expected] : cases) {
    const std::string seen = sent(written);
    if (json::accept(written)) {
      EXPECT_EQ(json::parse(seen), json::parse(expected));
    } else {
      EXPECT_EQ(seen, expected);
    }
  }
  json body = history_of("{}");
  body["messages"][2]["content"] = R"({"name": "J\u00f6rg M\u00fcller"})";
  body["grammar"] = R"(root ::= "J\u00f6rg M\u00fcller")";
  const json seen = sent_body(body);
  EXPECT_EQ(seen["messages"][2]["content"], R"({"name": "[TEXT_001]"})");
  EXPECT_EQ(seen["grammar"], R"(root ::= "[TEXT_001]")");
}

// The model reads both parts as one text.
TEST_F(RequestPrivacyTest, MasksValueAcrossOpenAndPrivateParts) {
  teach("I am <private>Annabel Quist</private>.");
  const json parts = {{{"type", "text"}, {"text", "Call Annabel "}},
                      {{"type", "text"}, {"text", "Quist"}, {"x_private", true}},
                      {{"type", "text"}, {"text", ", please."}}};
  const json sent = sent_body(chat(parts));
  std::string read;
  for (const json& part : sent["messages"][0]["content"]) read += part["text"];
  EXPECT_EQ(read, "Call [TEXT_001], please.");
}

TEST_F(RequestPrivacyTest, DetectedValueKeepsRequestLocal) {
  const std::string key = "sk-abcdefghijklmnopqrstü";
  for (const char* const mode : {"local", "prefix"}) {
    const auto request = taken(chat("My key is " + key, {{"private", mode}}));
    ASSERT_TRUE(request);
    EXPECT_TRUE(request->privacy.is_local) << mode;
    ASSERT_TRUE(request->masked);
    EXPECT_EQ(request->masked->body.find("sk-"), std::string::npos) << mode;
  }
}

TEST_F(RequestPrivacyTest, MasksPrediction) {
  const json prediction = {{"type", "content"}, {"content", "Write to ann@lee.org."}};
  const auto masked = taken(chat("Go on.", {{"prediction", prediction}}));
  ASSERT_TRUE(masked);
  EXPECT_EQ(json::parse(masked->body)["prediction"]["content"], "Write to [MAIL_001].");
  const auto local = taken(chat("Go on.", {{"private", "local"}, {"prediction", prediction}}));
  ASSERT_TRUE(local);
  EXPECT_TRUE(local->privacy.is_local);
}

// Every later request of the conversation sends it back.
TEST_F(RequestPrivacyTest, AcceptsRestoredCallInHistory) {
  teach("Write to <private>Annabel Quist</private>.");
  EXPECT_EQ(code(history_of(R"({"name": "Annabel Quist", "type": "Annabel Quist"})")), "");
  EXPECT_EQ(code(history_of("{}", "Annabel Quist")), "private_name");
}

// Otherwise one request with too many marks would exhaust the space for later ones.
TEST_F(RequestPrivacyTest, RefusedRequestUsesNoSpace) {
  std::string marks;
  for (std::size_t i = 0; i < PrivateVault::kValuesMax; ++i) {
    marks += "<private>value " + std::to_string(i) + "</private> ";
  }
  for (const char* const mode : {"mask", "local", "prefix"}) {
    EXPECT_EQ(code(chat(marks, {{"private", mode}})), "too_much_private_text") << mode;
  }
  teach("I am <private>Annabel Quist</private>, of <private>value 77</private>, zoe@lee.org.");
  EXPECT_EQ(sent_body(chat("Annabel Quist, value 78"))["messages"][0]["content"],
            "[TEXT_001], value 78");
}

TEST_F(RequestPrivacyTest, FullVaultRecoversAfterValuesExpire) {
  guard_.vault().set_now(Instant{});
  const auto fill = [&] {
    std::size_t accepted = 0;
    for (std::size_t i = 0; i < PrivateVault::kValuesMax / 500 + 1; ++i) {
      std::string marks;
      for (std::size_t j = 0; j < 500; ++j) {
        marks += "<private>value " + std::to_string(500 * i + j) + "</private> ";
      }
      accepted += code(chat(marks)).empty() ? 1 : 0;
    }
    return accepted;
  };
  EXPECT_EQ(fill(), PrivateVault::kValuesMax / 500);
  const json marked = chat("I am <private>Annabel Quist</private>.");
  EXPECT_EQ(code(marked), "too_much_private_text");
  teach("Write to zoe@lee.org about value 7.");
  guard_.vault().set_now(Instant{} + PrivateVault::kInUse);
  teach("Go on with value 7.");
  EXPECT_EQ(code(marked), "");
  EXPECT_EQ(sent_body(chat("Annabel Quist, value 7"))["messages"][0]["content"],
            "[TEXT_001], [TEXT_002]");
}

constexpr const char* kModes[] = {"mask", "local", "prefix"};

// The part of a message that leaves in a mode. If the message stays, it is the text before the
// private text.
class SpellingTest : public RequestPrivacyTest {
 protected:
  std::string left(PrivacyGuard& guard, const std::string& text, const std::string& mode) {
    const json body = chat(text, {{"private", mode}});
    const auto request = take_out_private(body.dump(), guard, bundle_.tokenizer());
    if (!request) return "refused: " + request.error().message;
    const bool goes_up = mode == "mask" || !request->privacy.is_local;
    if (!goes_up && !request->privacy.sends_open) return "";
    const std::string sent = goes_up ? request->body : request->masked->body;
    std::string content = json::parse(sent)["messages"][0]["content"];
    return goes_up ? content : content.substr(0, content.find('['));
  }
  void expect_hidden(PrivacyGuard& guard, const std::string& text, const std::string& before) {
    for (const std::string mode : kModes) {
      std::string rest = left(guard, before + text + " today", mode);
      for (const std::string& known : {before, std::string(" today")}) {
        if (const auto at = rest.find(known); at != std::string::npos) rest.erase(at, known.size());
      }
      for (auto at = rest.find('['); at != std::string::npos; at = rest.find('[')) {
        rest.erase(at, 10);
      }
      EXPECT_TRUE(compact(fold(rest)).text.empty()) << mode << ": " << rest << " of " << text;
    }
  }
};

// Spellings that keyboards, editors, web servers and PDF produce by themselves.
TEST_F(SpellingTest, FindsValuesInSpellingsOfPhonesAndEditors) {
  const std::pair<const char*, std::vector<const char*>> spellings[] = {
      {"O'Brien",
       {"O’Brien", "OʼBrien", "O‘Brien", "O`Brien", "O´Brien", "O′Brien", "O＇Brien", "o’BRIEN",
        "O&#39;Brien", "O&rsquo;Brien", "O%27Brien", "O\\u2019Brien"}},
      {"\"Blue Heron\"",
       {"“Blue Heron”",
        "„Blue Heron“",
        "«Blue Heron»",
        "‚Blue Heron‘",
        "‹Blue Heron›",
        "「Blue Heron」",
        "&quot;Blue&nbsp;Heron&quot;",
        "“Blue\u00A0Heron”",
        "Blue\u202FHeron",
        "Blue\u2007Heron",
        "Blue\u2009Heron",
        "Blue\u3000Heron",
        "Blue\u200BHeron",
        "Blue\uFEFFHeron",
        "Blue\tHeron",
        "Blue\r\n> Heron",
        "Blue%20Heron",
        "Blue+Heron",
        "Blue\u2028Heron",
        "Ｂｌｕｅ Ｈｅｒｏｎ",
        "B\u00ADlue He\u2060ron",
        "𝐁𝐥𝐮𝐞 𝐇𝐞𝐫𝐨𝐧"}},
      {"Kowalska-Zyx",
       {"Kowalska‐Zyx", "Kowalska\u2011Zyx", "Kowalska–Zyx", "Kowalska—Zyx", "Kowalska−Zyx",
        "Kowalska Zyx", "Kowal-\nska-Zyx", "Kowal-\r\n    ska-Zyx", "Kowalska-\nZyx",
        "Kowal\u00ADska-Zyx", "Kowalska&ndash;Zyx", "Kowalska_Zyx"}},
      {"Łódź", {"LODZ", "lodz", "Lódz", "L\u0301o\u0301dz", "&Lstrok;&oacute;d&zacute;"}},
      {"Søren Æbelø", {"SOREN AEBELO", "Soren Aebelo", "S&oslash;ren &AElig;bel&oslash;"}},
      {"Đorđe Œuf", {"Dorde Oeuf", "DORDE OEUF"}},
      {"Þór Guðni Straße", {"Thor Gudni Strasse", "THOR GUDNI STRASSE"}},
      {"İstanbul Işık", {"ISTANBUL IŞIK", "istanbul ışık", "Istanbul Isik"}},
      {"Lee & Quist",
       {"Lee &amp; Quist", "Lee &amp;amp; Quist", "Lee &#38; Quist", "Lee %26 Quist"}},
      {"pin 48213977", {"pin ٤٨٢١٣٩٧٧", "PIN ４８２１３９７７", "pin\u00A04821-3977"}},
  };
  for (const bool is_listed : {false, true}) {
    for (const auto& [value, written] : spellings) {
      PrivacyGuard guard(
          {.names = is_listed ? std::vector<std::string>{value} : std::vector<std::string>{}});
      if (!is_listed) left(guard, "<private>" + std::string(value) + "</private>", "mask");
      for (const char* const spelling : written) expect_hidden(guard, spelling, "Say to ");
      EXPECT_EQ(left(guard, "Say to Lee, O Brie, Blue Her, Kowals and Lo today", "mask"),
                "Say to Lee, O Brie, Blue Her, Kowals and Lo today")
          << value;
    }
  }
}

TEST_F(SpellingTest, FindsShortValueWithZeroWidthSpace) {
  PrivacyGuard guard({.names = {"Al Go"}});
  expect_hidden(guard, "Al\u200BGo", "Say to ");
  EXPECT_EQ(left(guard, "Say algo", "mask"), "Say algo");
}

// Separators that web pages and PDF put into numbers and programs into addresses.
TEST_F(SpellingTest, DetectorsAcceptWebSeparators) {
  PrivacyGuard guard(
      {.detects = {PrivateType::mail, PrivateType::phone, PrivateType::card, PrivateType::iban}});
  for (const std::string separator :
       {"\u00A0", "\u202F", "\u2007", "\u2009", "\u3000", ".", "/", "–", "\u2011", "−", "\n",
        "\r\n", "\t", "\u00AD", "\u200B", "&nbsp;", "%20", "\\u00a0"}) {
    for (const std::string number :
         {"4111 1111 1111 1111", "GB82 WEST 1234 5698 7654 32", "+49 170 1234567"}) {
      std::string written;
      for (const char c : number) written += c == ' ' ? separator : std::string(1, c);
      expect_hidden(guard, written, "Say to ");
    }
  }
  for (const char* const text :
       {"４１１１ １１１１ １１１１ １１１１", "٤١١١ ١١١١ ١١١١ ١١١١", "+４９ １７０ １２３４５６７",
        "०३० १२३४५६७", "zoe\u200Bquist@lee.org", "zoe\u00ADquist@lee.org", "zoequist@l\u2060ee.org",
        "zoequist%40lee.org", "zoequist&#64;lee.org", "zoequist&commat;lee.org",
        "zoequist&#x40;lee&period;org", "zoequist@lee。org", "zoequist＠lee．org",
        "\"zoe quist\"@lee.org", "zoequist\\u0040lee.org"}) {
    expect_hidden(guard, text, "Say to ");
  }
}

TEST_F(SpellingTest, MalformedMarksStillMark) {
  for (const auto& [open, close] : std::initializer_list<std::pair<const char*, const char*>>{
           {"<private>", "</private>"},
           {"<PRIVATE>", "</Private>"},
           {"<private >", "</private >"},
           {"< private>", "< /private>"},
           {"<\u00A0private\t>", "</ private>"},
           {"<private id=\"1\">", "</private>"},
           {"<private\n>", "</private\n>"},
           {"<private/>", "</private>"},
           {"<private/>", "<private/>"},
           {"<private", "</private"},
           {"[private]", "[/private]"},
           {"[ Private ]", "</private>"},
           {"&lt;private&gt;", "&lt;/private&gt;"},
           {"&#60;private&#62;", "&#x3c;/private&#x3e;"},
           {"&amp;lt;private&amp;gt;", "&amp;lt;/private&amp;gt;"},
           {"＜ｐｒｉｖａｔｅ＞", "＜／ｐｒｉｖａｔｅ＞"},
           {"<pri\u200Bvate>", "</private\uFEFF>"},
           {"<\uFEFFprivate>", "<\u2060/private>"},
           {"\\u003cprivate\\u003e", "\\u003c/private\\u003e"},
           {"\\u003Cprivate\\u003E", "\\u003C\\/private\\u003E"},
           {"\\\\u003cprivate\\\\u003e", "\\\\u003c/private\\\\u003e"},
           {"\\x3cprivate\\x3e", "\\x3c/private\\x3e"},
           {"%3Cprivate%3E", "%3C/private%3E"},
           {"", "</private>"},
           {"<private>", ""},
       }) {
    PrivacyGuard guard({});
    for (const std::string mode : kModes) {
      const std::string text = std::string(open) + "Annabel Quist" + close;
      const std::string rest = left(guard, text, mode);
      for (const char* const word : {"nnabel", "uist", "rivate", "ｐｒ"}) {
        EXPECT_EQ(rest.find(word), std::string::npos) << mode << ": " << rest << " of " << text;
      }
    }
  }
}

TEST_F(RequestPrivacyTest, RefusesMarksOnUnsupportedFields) {
  const json body = chat("Annabel Quist");
  const auto refused = [&](const std::string& pointer, const std::string& param) {
    json marked = body;
    marked["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
    marked[json::json_pointer(pointer)] = true;
    for (const char* const mode : {"mask", "local", "prefix", "off"}) {
      marked["private"] = mode;
      const auto request = taken(marked);
      ASSERT_FALSE(request) << pointer;
      EXPECT_EQ(request.error().code, "unsupported_value");
      EXPECT_EQ(request.error().param, param);
    }
  };
  refused("/x_private", "x_private");
  refused("/tools/0/x_private", "tools[0].x_private");
  refused("/tools/0/function/x_private", "tools[0].function.x_private");
  refused("/response_format/x_private", "response_format.x_private");
  json call = history_of("{}");
  call["messages"][1]["tool_calls"][0]["function"]["x_private"] = true;
  EXPECT_EQ(code(call), "unsupported_value");
}

TEST_F(RequestPrivacyTest, DetectsPrivateTextSpelledByBiases) {
  teach("I am <private>Kowalska-Zyx</private>, pin <private>48213977</private>.");
  const auto biased = [&](const std::string& text, const std::string& mode) {
    json body = chat("Go on.", {{"private", mode}});
    for (const std::uint32_t token : bundle_.tokenizer().encode(MarkedText::foreign(text))) {
      body["logit_bias"][std::to_string(token)] = -100;
    }
    return body;
  };
  for (const char* const text : {"Kowalska-Zyx", " kowalska-zyx", "never say KOWALSKA-ZYX"}) {
    EXPECT_EQ(code(biased(text, "mask")), "private_name") << text;
    for (const char* const mode : {"local", "prefix"}) {
      const auto request = taken(biased(text, mode));
      ASSERT_TRUE(request);
      EXPECT_TRUE(request->privacy.is_local) << text;
      EXPECT_FALSE(request->masked) << text;
    }
    EXPECT_EQ(code(biased(text, "off")), "");
  }
  for (const char* const text : {"never say this", "0 1 2 3 4 5 6 7 8 9", "Kowal"}) {
    const auto request = taken(biased(text, "local"));
    ASSERT_TRUE(request);
    EXPECT_FALSE(request->privacy.is_local) << text;
  }
}

TEST_F(RequestPrivacyTest, FindsValueSplitOverSeveralTexts) {
  teach("I am <private>Kowalska-Zyx</private>.");
  for (const char* const arguments :
       {R"(["Kowals","ka-Zyx"])", R"({"a": "Kowals", "b": "ka-Zyx"})",
        R"({"a": ["Kowals", {"c": "ka"}], "b": "Zyx"})", "[\"Kowals\",\n    \"ka-Zyx\"]"}) {
    EXPECT_EQ(sent(arguments), R"({"private":"[TEXT_001]"})") << arguments;
  }
  EXPECT_EQ(sent(R"({"a": "Kowals", "b": "Zyx"})"), R"({"a": "Kowals", "b": "Zyx"})");
  json body = {{"messages", {{{"role", "user"}, {"content", "Go on."}}}},
               {"grammar", R"(root ::= "Kowals" "ka-Zyx")"},
               {"stop", {"Kowals", "ka-Zyx"}}};
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"schema", {{"enum", {"Kowals", "ka-Zyx"}}}}}}};
  const auto request = taken(body);
  ASSERT_TRUE(request);
  for (const char* const part : {"Kowals", "ka-Zyx"}) {
    EXPECT_EQ(request->body.find(part), std::string::npos) << request->body;
  }
}

TEST_F(RequestPrivacyTest, RequiresBooleanMarks) {
  const auto body_of = [](const json& of_message, const json& of_part) {
    json part = {{"type", "text"}, {"text", "Annabel Quist"}};
    part["x_private"] = of_part;
    json message = {{"role", "user"}, {"content", json::array({part})}};
    message["x_private"] = of_message;
    return json{{"messages", json::array({message})}};
  };
  for (const json& mark : {json(1), json("true"), json::array(), json::object()}) {
    for (const bool is_message : {true, false}) {
      json body = is_message ? body_of(mark, true) : body_of(nullptr, mark);
      for (const char* const mode : {"mask", "local", "off"}) {
        body["private"] = mode;
        const auto request = taken(body);
        ASSERT_FALSE(request) << body;
        EXPECT_EQ(request.error().code, "invalid_value");
        EXPECT_EQ(request.error().param,
                  is_message ? "messages[0].x_private" : "messages[0].content[0].x_private");
      }
    }
  }
  for (const json& mark : {json(nullptr), json(false)}) {
    const auto request = taken(body_of(mark, mark));
    ASSERT_TRUE(request);
    EXPECT_FALSE(request->privacy.found());
  }
}

TEST_F(RequestPrivacyTest, MasksReasoningAndTemplateVariables) {
  const auto request = taken({{"messages",
                               {{{"role", "assistant"},
                                 {"content", "Yes."},
                                 {"reasoning_content", "They wrote from zoe@lee.org"}},
                                {{"role", "user"}, {"content", "Go on."}}}},
                              {"chat_template_kwargs", {{"of", "ann@lee.org"}}}});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->body.find("lee.org"), std::string::npos) << request->body;
  const json body = json::parse(request->body);
  EXPECT_EQ(body["messages"][0]["reasoning_content"], "They wrote from [MAIL_001]");
  EXPECT_EQ(body["chat_template_kwargs"]["of"], "[MAIL_002]");
}

TEST_F(RequestPrivacyTest, MarkedMessageIsWhollyPrivate) {
  json body = history_of(R"({"to": "Bob Lee"})");
  json& messages = body["messages"];
  messages[0]["content"] = "My sister is late.";
  for (json& message : messages) message["x_private"] = true;
  const json parts = json::array(
      {{{"type", "text"}, {"text", "Who is "}}, {{"type", "text"}, {"text", "Annabel Quist?"}}});
  messages.push_back({{"role", "user"}, {"content", parts}, {"x_private", true}});
  const auto request = taken(body);
  ASSERT_TRUE(request);
  const json sent_messages = json::parse(request->body)["messages"];
  EXPECT_EQ(sent_messages[0]["content"], "[TEXT_001]");
  EXPECT_EQ(sent_messages[1]["tool_calls"][0]["function"]["arguments"],
            R"({"private":"[TEXT_002]"})");
  EXPECT_EQ(sent_messages[2]["content"], "[TEXT_003]");
  EXPECT_EQ(sent_messages[3]["content"][0]["text"], "[TEXT_004]");
  EXPECT_EQ(*request->privacy.placeholders->value_of("[TEXT_002]"), R"({"to": "Bob Lee"})");
  body["private"] = "local";
  const auto kept = taken(body);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->privacy.is_local);
  EXPECT_EQ(json::parse(kept->body)["messages"][1], messages[1]);
}

TEST_F(RequestPrivacyTest, KeepsPlaceholdersInToolCallsAndResults) {
  json body = history_of(R"({"to": "[TEXT_001]"})");
  body["messages"][0]["content"] = "Write to <private>Annabel Quist</private>.";
  body["messages"][2]["content"] = "I wrote to [TEXT_001].";
  const auto request = taken(body);
  ASSERT_TRUE(request);
  EXPECT_EQ(json::parse(request->body)["messages"][0]["content"], "Write to [TEXT_001].");
  EXPECT_EQ(*request->privacy.placeholders->value_of("[TEXT_001]"), "Annabel Quist");
}

TEST_F(RequestPrivacyTest, RefusesPrivateNamesInSchemas) {
  const json refused[] = {
      {{"properties", {{"zoe@lee.org", {{"type", "string"}}}}}},
      {{"const", {{"ann@lee.org", 1}}}},
      {{"default", {{"name", "bob@lee.org"}}}},
      {{"properties", {{"<private>Ann</private>", {{"type", "string"}}}}}},
      {{"required", {"eve@lee.org"}}},
  };
  for (const json& parameters : refused) {
    EXPECT_EQ(code(tools_of(parameters)), "private_name") << parameters;
  }
  // Names of programs look like keys, and so do the ids of calls.
  const char* const name = "base64_encoded_image_data_4kz91";
  EXPECT_EQ(code(tools_of({{"properties", {{name, {{"type", "string"}}}}}})), "");
  const std::string arguments = json{{name, "x"}}.dump();
  EXPECT_EQ(sent(arguments), arguments);
  EXPECT_EQ(code(tools_of({{"properties", {{name, {{"type", "string"}}}}}})), "");
}

TEST_F(RequestPrivacyTest, MasksNumbersInSchemas) {
  teach("My account is <private>48213977</private>.");
  const auto request = taken(tools_of({{"properties", {{"a", {{"const", 48213977}}}}}}));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->body.find("48213977"), std::string::npos) << request->body;
}

TEST_F(RequestPrivacyTest, PrefixSendsTextBeforeMaskedKey) {
  teach("I am <private>Annabel Quist</private>.");
  json body = history_of(R"({"votes": {"Annabel Quist": 3}})");
  body["private"] = "prefix";
  const auto keyed = taken(body);
  ASSERT_TRUE(keyed);
  EXPECT_TRUE(keyed->privacy.is_local);
  ASSERT_TRUE(keyed->masked);
  EXPECT_EQ(keyed->masked->body.find("Quist"), std::string::npos);
  json named = history_of(R"({"votes": 3})", "Annabel Quist");
  named["private"] = "prefix";
  const auto kept = taken(named);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->privacy.is_local);
  EXPECT_FALSE(kept->masked);
}

// Each number would be searched as text, although too many stops are refused anyway.
TEST_F(RequestPrivacyTest, RefusesTooManyStopsWithoutSearching) {
  const auto request = taken(chat("Hi", {{"stop", json::array_t(260'000, 4111111111111111)}}));
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->privacy.found());
  const auto refused = parse_completion(request->body, CompletionKind::chat, {}, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "stop");
}

}  // namespace
}  // namespace edgedraft::client
