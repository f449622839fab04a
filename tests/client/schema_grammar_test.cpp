#include "client/serve/schema_grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/random.h"
#include "tests/client/grammar_text.h"

namespace edgedraft {
namespace {

using Schema = SchemaGrammar::Schema;

using test::accepts;
using test::automaton_of;

GrammarAutomaton automaton(const std::string& schema) {
  SchemaGrammar rules("schema");
  const std::string rule = rules.rule_of(Schema::parse(schema));
  EXPECT_FALSE(rules.error()) << rules.error()->message;
  return automaton_of(rules.grammar(rule));
}

void expect(const std::string& schema, const std::vector<std::string>& right,
            const std::vector<std::string>& wrong) {
  SCOPED_TRACE(schema);
  GrammarAutomaton a = automaton(schema);
  for (const std::string& text : right) EXPECT_TRUE(accepts(a, text)) << text;
  for (const std::string& text : wrong) EXPECT_FALSE(accepts(a, text)) << text;
}

TEST(SchemaGrammarTest, TypesAreTheirTexts) {
  expect(R"({"type": "string"})", {R"("")", R"("a\"\\\né\u00e9")", "\"日本\""},
         {"", "a", "\"", R"("\x")", R"("\ud800")", "\"\n\"", "\"\xC3\""});
  expect(R"({"type": "integer"})", {"0", "-1", "120"}, {"01", "1.0", "+1", "-", "1e3"});
  expect(R"({"type": "number"})", {"0", "-1.5", "1e10", "2.5E-3"}, {"01", "1.", ".5", "1e999"});
  expect(R"({"type": "boolean"})", {"true", "false"}, {"True", "null"});
  expect(R"({"type": ["integer", "null"]})", {"3", "null"}, {"true"});
  expect(R"({"enum": ["a b", 3, null, "\""]})", {R"("a b")", "3", "null", R"("\"")"}, {"a b", "4"});
  expect(R"({"const": {"a": [1, "x"]}})", {R"({"a":[1,"x"]})"}, {R"({"a":[1]})"});
  expect(R"({"type": "string", "minLength": 2, "maxLength": 3})", {R"("ab")", R"("日本語")"},
         {R"("a")", R"("abcd")"});
  expect(R"({"anyOf": [{"type": "integer"}, {"const": "x"}]})", {"1", R"("x")"}, {R"("y")"});
  expect("{}", {"1", R"({"a": [1, {"b": null}]})", "[]", R"("x")"}, {"", "{", "[1,]"});
  expect("true", {"1", "{}"}, {"x"});
}

TEST(SchemaGrammarTest, ObjectsHaveWhatIsRequiredInOrder) {
  expect(R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"},
             "c": {"const": 1}}, "required": ["a"]})",
         {R"({"a":true})", R"({"b": 1, "a": false})", R"({"b":1,"a":true,"c":1})",
          R"({"a":true,"c":1})"},
         {"{}", R"({"b":1})", R"({"a":true,"b":1})", R"({"a":true,})", R"({,"a":true})",
          R"({"a":true "c":1})", R"({"a":true,"x":1})"});
  expect(R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}})",
         {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}, {R"({"b":2,"a":1})"});
  expect(R"({"type": "object", "additionalProperties": {"type": "integer"}})",
         {"{}", R"({"x": 1,"y":2})"}, {R"({"x": "1"})"});
  expect(R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"x":1})"});
}

TEST(SchemaGrammarTest, ArraysAreAsLongAsTheyMayBe) {
  expect(R"({"type": "array", "items": {"const": 1}})", {"[]", "[1]", "[1,1, 1]"}, {"[,]", "[1,]"});
  expect(R"({"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3})",
         {"[1,1]", "[1,1,1]"}, {"[]", "[1]", "[1,1,1,1]"});
  expect(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  expect(R"({"type": "array", "items": {"const": 1}, "maxItems": 1})", {"[]", "[1]"}, {"[1,1]"});
  expect(R"({"items": [{"const": 1}, {"const": 2}]})", {"[1, 2]"}, {"[1]", "[1, 2, 2]"});
  expect(R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]})", {"[1, 2]"},
         {"[1]", "[2,1]"});
}

TEST(SchemaGrammarTest, AsManyValuesAndPropertiesAsThereIsRoomForAllCount) {
  Schema values;
  Schema members;
  for (int i = 0; i < 4000; ++i) values["enum"].push_back(std::to_string(i));
  for (int i = 0; i < 400; ++i) members["properties"]["p" + std::to_string(i)]["const"] = 1;
  expect(values.dump(), {R"("0")", R"("3999")"}, {R"("4000")"});
  expect(members.dump(), {R"({"p0":1})", R"({"p399":1})", R"({"p0":1,"p399":1})"},
         {R"({"p399":1,"p0":1})"});
}

TEST(SchemaGrammarTest, WordsBesideAChoiceHoldForAllOfIt) {
  expect(R"({"type": "integer", "enum": [1, "x", 2.5]})", {"1"}, {R"("x")", "2.5"});
  expect(R"({"type": ["string", "null"], "enum": [1, "x", null]})", {R"("x")", "null"}, {"1"});
  expect(R"({"type": "string", "const": "x", "title": "t"})", {R"("x")"}, {});
  expect(R"({"type": "object", "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
             {"additionalProperties": false}]})",
         {R"({"a":1})", "{}"}, {"1", R"({"b":1})"});
  for (const char* word : {"anyOf", "oneOf", "allOf"}) {
    expect(R"({"type": "string", ")" + std::string(word) + R"(": [true]})", {R"("x")"},
           {"false", "1", "{}"});
  }
}

TEST(SchemaGrammarTest, AWordOfOneTypeMeansThatType) {
  expect(R"({"minLength": 2})", {R"("ab")"}, {R"("a")", "1"});
  expect(R"({"minItems": 1})", {"[1]"}, {"[]", "1"});
  expect(R"({"additionalProperties": {"type": "integer"}})", {R"({"a":1})"}, {R"({"a":"b"})", "1"});
  expect(R"({"properties": {"a": {"const": 1}}, "unevaluatedProperties": false})", {R"({"a":1})"},
         {R"({"b":1})"});
}

TEST(SchemaGrammarTest, ReferencesMayLeadBack) {
  expect(R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
             "v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/tree"},
             {"type": "null"}]}}, "required": ["v", "next"]}}})",
         {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})"});
  expect(R"({"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}, "minItems": 1}]})",
         {"null", "[null]", "[[null], null]"}, {"[]"});
}

TEST(SchemaGrammarTest, AReferenceIsAPartOfAnAddress) {
  expect(R"({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"const": 1}}})", {"1"}, {"2"});
  expect(R"({"$ref": "#/%24defs/a~1b", "$defs": {"a/b": {"const": 1}}})", {"1"}, {"2"});
}

std::string why_refused(const std::string& schema) {
  SchemaGrammar rules("schema");
  rules.rule_of(Schema::parse(schema));
  return rules.error() ? rules.error()->message : "";
}

// As a grammar they would be refused by names that the user has never seen.
TEST(SchemaGrammarTest, AReferenceThatLeadsToItselfIsNamed) {
  for (
      const char* schema :
      {R"({"$ref": "#"})", R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})",
       R"({"allOf": [{"oneOf": [{"$ref": "#"}]}]})",
       R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}})",
       R"({"properties": {"x": {"anyOf": [{"items": {"$ref": "#/$defs/b"}}, {"$ref": "#/$defs/b"}]}},
            "$defs": {"b": {"$ref": "#/properties/x"}}})"}) {
    SCOPED_TRACE(schema);
    const std::string refusal = why_refused(schema);
    EXPECT_NE(refusal.find("leads to itself"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("'schema'"), std::string::npos) << refusal;
  }
}

TEST(SchemaGrammarTest, RefusalsNameTheWordThatWasUsed) {
  for (const char* name : {"prefixItems", "items"}) {
    const std::string word = name;
    const std::string refusal = why_refused(R"({"type": "array", ")" + word + R"(": []})");
    EXPECT_NE(refusal.find(": " + word + " has to be an array that is not empty"),
              std::string::npos)
        << refusal;
  }
}

TEST(SchemaGrammarTest, WhatItCannotKeepToIsRefused) {
  for (const char* schema :
       {R"({"type": "string", "pattern": "a"})",
        R"({"type": "integer", "minimum": 3})",
        R"({"type": "array", "uniqueItems": true})",
        R"({"type": "thing"})",
        R"({"type": 3})",
        R"({"type": "object", "properties": {"a": {"not": {}}}})",
        R"({"enum": []})",
        "3",
        R"({"type": "object", "properties": {"a": {}}, "required": ["b"]})",
        R"({"allOf": [{"type": "string"}, {"type": "integer"}]})",
        R"({"$ref": "http://x/y"})",
        R"({"$ref": "#/$defs/none"})",
        R"({"$ref": "#nonsense~"})",
        R"({"type": "array", "minItems": 3, "maxItems": 2})",
        R"({"type": "string", "maxLength": 5000})",
        R"({"properties": 3})",
        R"({"type": "object", "required": ["k"], "oneOf": [{"properties": {"k": {"const": 1}}}]})",
        R"({"type": "string", "anyOf": [{"type": "integer"}]})",
        R"({"minLength": 3, "anyOf": [{"type": "string"}]})",
        R"({"$ref": "#/$defs/n", "maxLength": 3, "$defs": {"n": {"type": "string"}}})",
        R"({"anyOf": [{}], "oneOf": [{"type": "string"}]})",
        R"({"type": "integer", "enum": ["x"]})",
        R"({"prefixItems": [{}], "minItems": 2})",
        R"({"prefixItems": [{}, {}], "maxItems": 1})",
        R"({"type": "object", "propertyNames": false})",
        R"({"type": "object", "unevaluatedProperties": false})",
        R"({"contains": false})",
        R"({"if": false, "else": {"type": "string"}})",
        R"({"$recursiveRef": "#"})"}) {
    SchemaGrammar rules("schema");
    rules.rule_of(Schema::parse(schema));
    ASSERT_TRUE(rules.error()) << schema;
    EXPECT_EQ(rules.error()->param, "schema");
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"items": )";
  SchemaGrammar rules("schema");
  rules.rule_of(Schema::parse(deep + "{}" + std::string(100, '}')));
  EXPECT_TRUE(rules.error());
}

// Minutes, if each name were looked for among all the others.
TEST(SchemaGrammarTest, ManyNamesTakeNoLonger) {
  Schema schema;
  for (int i = 0; i < 4000; ++i) schema["properties"]["p" + std::to_string(i)] = Schema::object();
  schema["required"] = Schema::array();
  for (int i = 0; i < 1'000'000; ++i) schema["required"].push_back("p3999");
  const Instant begun = Clock::now();
  SchemaGrammar rules("schema");
  rules.rule_of(schema);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(20));
}

// Walks through a grammar's texts at random, until one ends.
std::string random_text(GrammarAutomaton& a, Random& random) {
  std::string text;
  for (auto state = a.start();;) {
    std::vector<std::uint8_t> bytes;
    for (int b = 0; b < 256; ++b) {
      // Mostly plain letters, so that texts end some time.
      const bool rare = b >= 0x80 || b == '\\';
      if (rare && random.below(50) != 0) continue;
      if (a.next(state, static_cast<std::uint8_t>(b)) != GrammarAutomaton::kDead) {
        bytes.push_back(static_cast<std::uint8_t>(b));
      }
    }
    if (a.accepts(state) && (bytes.empty() || random.below(2) == 0)) return text;
    if (bytes.empty()) continue;
    std::uint8_t byte = bytes[random.below(bytes.size())];
    for (const std::uint8_t closing : {'"', ']', '}'}) {
      const bool there = std::find(bytes.begin(), bytes.end(), closing) != bytes.end();
      if (there && random.below(3) == 0) byte = closing;
    }
    text += static_cast<char>(byte);
    state = a.next(state, byte);
  }
}

TEST(SchemaGrammarTest, EveryTextOfAGrammarIsJson) {
  Random random(4);
  for (const char* schema : {"{}", R"({"type": "array", "items": {"type": "object", "properties": {
                  "a": {"type": "number"}, "b": {"type": "string"}}}})"}) {
    GrammarAutomaton a = automaton(schema);
    for (int run = 0; run < 300; ++run) {
      const std::string text = random_text(a, random);
      EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    }
  }
}

}  // namespace
}  // namespace edgedraft
