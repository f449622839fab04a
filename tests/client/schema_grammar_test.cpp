#include "client/serve/schema/schema_grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/random.h"
#include "tests/client/grammar_text.h"

namespace edgedraft::client {
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

TEST(SchemaGrammarTest, AcceptsTextsOfEachType) {
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

TEST(SchemaGrammarTest, ObjectsHaveRequiredPropertiesInOrder) {
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

TEST(SchemaGrammarTest, EnforcesArrayLengths) {
  expect(R"({"type": "array", "items": {"const": 1}})", {"[]", "[1]", "[1,1, 1]"}, {"[,]", "[1,]"});
  expect(R"({"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3})",
         {"[1,1]", "[1,1,1]"}, {"[]", "[1]", "[1,1,1,1]"});
  expect(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  expect(R"({"type": "array", "items": {"const": 1}, "maxItems": 1})", {"[]", "[1]"}, {"[1,1]"});
  expect(R"({"items": [{"const": 1}, {"const": 2}]})", {"[1, 2]"}, {"[1]", "[1, 2, 2]"});
  expect(R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]})", {"[1, 2]"},
         {"[1]", "[2,1]"});
}

TEST(SchemaGrammarTest, AcceptsManyValuesAndProperties) {
  Schema values;
  Schema members;
  for (int i = 0; i < 4000; ++i) values["enum"].push_back(std::to_string(i));
  for (int i = 0; i < 400; ++i) members["properties"]["p" + std::to_string(i)]["const"] = 1;
  expect(values.dump(), {R"("0")", R"("3999")"}, {R"("4000")"});
  expect(members.dump(), {R"({"p0":1})", R"({"p399":1})", R"({"p0":1,"p399":1})"},
         {R"({"p399":1,"p0":1})"});
}

TEST(SchemaGrammarTest, KeywordsBesideChoiceApplyToAllAlternatives) {
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

// The keywords of a schema that are not enforced, as reported to a client.
std::string left_out(const std::string& schema) {
  const Schema parsed = Schema::parse(schema);
  SchemaGrammar rules("schema");
  rules.rule_of(parsed);
  EXPECT_FALSE(rules.error()) << schema << ": " << rules.error()->message;
  return listed(rules.take_unenforced());
}

TEST(SchemaGrammarTest, EnforcesIntegerBounds) {
  const std::pair<std::int64_t, std::int64_t> ranges[] = {
      {0, 0}, {1, 100}, {-5, 7}, {-120, -99}, {9, 1001}, {100, 199}, {-1, 1}, {37, 4562}};
  for (const auto& [first, last] : ranges) {
    GrammarAutomaton a = automaton(R"({"type": "integer", "minimum": )" + std::to_string(first) +
                                   R"(, "maximum": )" + std::to_string(last) + "}");
    for (std::int64_t i = -5000; i <= 5000; ++i) {
      EXPECT_EQ(accepts(a, std::to_string(i)), first <= i && i <= last) << first << ' ' << i;
    }
  }
  expect(R"({"type": "integer", "exclusiveMinimum": 0})", {"1", "10", "1234567890123456"},
         {"0", "-1", "01", "1.0"});
  expect(R"({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 10.5})", {"1", "10"},
         {"0", "11"});
  expect(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})", {"4"}, {"3"});
  expect(R"({"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991})",
         {"0", "-9007199254740991", "9007199254740991", "42"},
         {"9007199254740992", "-9007199254740992"});
  expect(R"({"type": "integer", "minimum": 123456789012345678})", {"123456789012345678"},
         {"123456789012345677"});
  expect(R"({"type": ["integer", "null"], "maximum": -1})", {"-1", "null"}, {"0"});
  EXPECT_EQ(left_out(R"({"type": "integer", "minimum": 1, "maximum": 1e30})"), "");
}

TEST(SchemaGrammarTest, EnforcesPatterns) {
  const auto pattern = [](const std::string& text) {
    return Schema({{"type", "string"}, {"pattern", text}}).dump();
  };
  // Unanchored patterns match anywhere.
  expect(pattern("b+"), {R"("b")", R"("abbc")", R"("\"b")"}, {R"("")", R"("ac")"});
  expect(pattern("^a|b$"), {R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"});
  expect(pattern("^[a-z_][a-z0-9_-]{1,3}$"), {R"("a-9")", R"("_abc")"},
         {R"("a")", R"("abcde")", R"("9a")"});
  expect(pattern(R"(^\d{3}-\w\.(?:x|yz)?$)"), {R"("123-A.")", R"("123-_.yz")"},
         {R"("12-A.")", R"("123-A.y")", R"("123-A,")"});
  expect(pattern(R"(^[^\s"]+$)"), {R"("a/b")", "\"é日\"", R"("\\")"},
         {R"("a b")", R"("\"")", "\"\u3000\"", R"("\n")"});
  expect(pattern(R"(^.\u00e9\u{1F600}?(?<n>\/)+?$)"), {"\"xé/\"", "\"é\u00e9😀//\""}, {"\"xé\""});
  expect(pattern("^$"), {R"("")"}, {R"("a")"});
  expect(pattern("a{x}"), {R"("a{x}")"}, {R"("a")"});
  expect(R"({"type": "string", "format": "date"})", {R"("2024-02-29")"},
         {R"("2024-13-01")", R"("24-01-01")"});
  expect(R"({"type": "string", "format": "ipv4"})", {R"("192.168.0.255")"},
         {R"("1.2.3")", R"("256.1.1.1")"});
  for (const char* text : {"b+", "^(a|b)*$", "^[^a]{2,}$", R"(\d\D\s\S\w\W)"}) {
    EXPECT_EQ(left_out(pattern(text)), "") << text;
  }
  // Lookarounds are left out, which accepts more.
  expect(pattern("^(?!a)[a-z]+(?=[)])?\\b$"), {R"("b")", R"("ab")"}, {R"("1")"});
  expect(pattern("^(?!a)[a-z]+$"), {R"("b")", R"("ab")"}, {R"("1")"});
  for (const char* text : {"^(?!a)b", R"(\bword\b)", R"((a)\1)", "(", "[", "a**", "(^a)", "(a*)*",
                           R"(\p{L})", "[b-a]", "a{2000}", R"(\)", "[\\"}) {
    EXPECT_EQ(left_out(pattern(text)), "pattern") << text;
  }
  EXPECT_EQ(left_out(pattern("^(?:" + std::string(2000, 'a') + ")")), "pattern");
  EXPECT_EQ(left_out(pattern(std::string(500, '(') + std::string(500, ')'))), "pattern");
  EXPECT_EQ(left_out(R"({"type": "string", "pattern": "^a", "minLength": 3})"), "minLength");
  EXPECT_EQ(left_out(R"({"type": "string", "format": "uri"})"), "format");
  EXPECT_EQ(left_out(R"({"type": "integer", "format": "int32"})"), "");
}

// Every valid value has to stay possible, and the client gets a report.
TEST(SchemaGrammarTest, ReportsUnenforcedKeywordsAndExcludesNothing) {
  struct Left {
    const char* schema;
    const char* words;
    std::vector<std::string> valid;
  };
  const std::vector<Left> all = {
      {R"({"type": "integer", "multipleOf": 5})", "multipleOf", {"10"}},
      {R"({"type": "number", "minimum": 1, "exclusiveMaximum": 2})",
       "exclusiveMaximum, minimum",
       {"1.5"}},
      {R"({"type": "array", "uniqueItems": true, "contains": {"const": 1}})",
       "contains, uniqueItems",
       {"[1, 2]"}},
      {R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}},
           "additionalProperties": false})",
       "patternProperties",
       {R"({"x1": 1})"}},
      {R"({"properties": {"a": {"const": 1}}, "patternProperties": {"^x": {}}})",
       "patternProperties",
       {R"({"a":1,"x": 2})", R"({"ab": 2})", R"({"":2})"}},
      {R"({"type": "object", "minProperties": 2, "properties": {"a": {"const": 1}}})",
       "minProperties",
       {R"({"a":1,"b":2})"}},
      {R"({"type": "object", "maxProperties": 1})", "maxProperties", {R"({"a":1})"}},
      {R"({"type": "string", "not": {"const": "a"}})", "not", {R"("b")"}},
      {R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "if": {"properties":
           {"a": {"const": true}}}, "then": {"required": ["b"], "properties": {"b": {}}}})",
       "if",
       {R"({"a":true,"b":1})"}},
      {R"({"type": "object", "properties": {"a": {}}, "dependentRequired": {"a": ["b"]}})",
       "dependentRequired",
       {R"({"a":1,"b":1})"}},
      {R"({"type": "string", "maxLength": 5000})",
       "maxLength",
       {'"' + std::string(1500, 'a') + '"'}},
      {R"({"type": "string", "minLength": 5000})",
       "minLength",
       {'"' + std::string(5000, 'a') + '"'}},
      {R"({"$ref": "http://x/y"})", "$ref", {"1"}},
      {R"({"$ref": "#anchor"})", "$ref", {"1"}},
      {R"({"$recursiveRef": "#"})", "$recursiveRef", {"1"}},
      {R"({"enum": ["aa", "b"], "minLength": 2})", "minLength", {R"("aa")"}},
      {R"({"type": "object", "properties": {"a": {}}, "propertyNames": {"pattern": "^a"}})",
       "propertyNames",
       {R"({"a":1})"}},
      {R"({"type": "object", "unevaluatedProperties": false})", "unevaluatedProperties", {"{}"}}};
  for (const Left& left : all) {
    EXPECT_EQ(left_out(left.schema), left.words) << left.schema;
    expect(left.schema, left.valid, {});
  }
  EXPECT_EQ(left_out(R"({"uniqueItems": false, "not": false, "minProperties": 0,
                         "propertyNames": {}})"),
            "");
  // A keyword for another type restricts nothing.
  EXPECT_EQ(left_out(R"({"type": "boolean", "multipleOf": 2, "uniqueItems": true})"), "");
}

TEST(SchemaGrammarTest, CombinesSeveralSchemas) {
  expect(R"({"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
                       {"$ref": "#/$defs/b"}],
             "$defs": {"b": {"properties": {"b": {"const": 2}}, "required": ["b"]}}})",
         {R"({"a":1,"b":2})"}, {R"({"a":1})", R"({"b":2})", "{}"});
  expect(R"({"type": "object", "properties": {"a": {}, "b": {}},
             "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
         {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"}, {"{}"});
  expect(R"({"type": "object", "required": ["k"], "oneOf": [{"properties": {"k": {"const": 1}}}]})",
         {R"({"k":1})"}, {"{}", R"({"k":2})"});
  expect(R"({"minLength": 3, "anyOf": [{"type": "string", "maxLength": 4}, {"type": "null"}]})",
         {R"("abc")", "null"}, {R"("ab")", R"("abcde")"});
  expect(R"({"$ref": "#/$defs/n", "maxLength": 3, "$defs": {"n": {"type": "string"}}})",
         {R"("abc")"}, {R"("abcd")", "1"});
  expect(R"({"anyOf": [{"type": "string"}, {"type": "integer"}], "oneOf": [{"type": "number"}]})",
         {"1"}, {R"("x")", "1.5"});
  expect(R"({"allOf": [{"minimum": 3}, {"type": "integer", "maximum": 5}]})", {"3", "5"},
         {"2", "6"});
  expect(R"({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]})", {"2"}, {"1", "3"});
  expect(R"({"allOf": [{"items": {"type": "integer"}, "minItems": 1}, {"items": {"maximum": 3}}]})",
         {"[3]", "[-1,2]"}, {"[]", "[4]"});
  // A reference to itself within an allOf.
  expect(R"({"type": "object", "properties": {"v": {"const": 1}, "next": {"allOf": [{"$ref": "#"}],
             "description": "d"}}})",
         {R"({"v":1})", R"({"v":1,"next":{"next":{"v":1}}})"}, {R"({"next":1})"});
  EXPECT_EQ(left_out(R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false},
                                   {"properties": {"b": {}}}]})"),
            "additionalProperties");
}

TEST(SchemaGrammarTest, AcceptsRequiredOrNamedMembersWithoutProperty) {
  expect(R"({"type": "object", "properties": {"a": {}}, "required": ["b"]})",
         {R"({"b":1})", R"({"a":1,"b":2})"}, {"{}", R"({"a":1})"});
  expect(R"({"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties":
             {"type": "integer"}})",
         {"{}", R"({"x":1,"y":2})"}, {R"({"z":1})", R"({"x":"a"})"});
  // Further properties cannot use a name that has its own schema.
  expect(R"({"type": "object", "properties": {"ab": {"const": 1}, "é": {"const": 2}},
             "additionalProperties": {"type": "boolean"}})",
         {R"({"ab":1,"a": true})", R"({"abc":true})", R"({"x":true,"y":false})",
          "{\"é\":2,\"b\":true}"},
         {R"({"x":1})", R"({"ab":true})", R"({"x":true,"ab":true})", R"({"x":true,"\u0061b":true})",
          "{\"x\":true,\"é\":true}"});
}

TEST(SchemaGrammarTest, OmitsOrRefusesUnsatisfiableSchemas) {
  expect(R"({"type": "string", "anyOf": [{"type": "integer"}, {"const": 1}, {"const": "x"}]})",
         {R"("x")"}, {"1"});
  expect(R"({"type": "object", "properties": {"a": false, "b": {"const": 1}}})",
         {"{}", R"({"b":1})"}, {R"({"a":1})"});
  expect(R"({"type": "array", "items": false})", {"[]"}, {"[1]"});
  expect(R"({"prefixItems": [{"const": 1}], "minItems": 2})", {"[1,2]"}, {"[1]", "[2,2]"});
  expect(R"({"prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1})", {"[1]"}, {"[1,2]"});
  for (const char* schema : {"false", R"({"type": "integer", "enum": ["x"]})",
                             R"({"type": "integer", "minimum": 3, "maximum": 2})",
                             R"({"type": "array", "minItems": 3, "maxItems": 2})",
                             R"({"type": "object", "properties": {"a": false}, "required": ["a"]})",
                             R"({"allOf": [{"type": "string"}, {"type": "integer"}]})"}) {
    SchemaGrammar rules("schema");
    const Schema parsed = Schema::parse(schema);
    rules.rule_of(parsed);
    ASSERT_TRUE(rules.error()) << schema;
    EXPECT_NE(rules.error()->message.find("no value fits"), std::string::npos);
  }
}

TEST(SchemaGrammarTest, OmitsBoundsTooLargeForGrammar) {
  Schema schema;
  for (int i = 0; i < 100; ++i) {
    schema["properties"]["p" + std::to_string(i)] = {{"type", "string"}, {"maxLength", 1024}};
  }
  EXPECT_EQ(left_out(schema.dump()), "maxLength");
  expect(schema.dump(), {R"({"p0":"a","p99":"b"})"}, {R"({"p0":1})"});
}

// Schemas that would multiply, and choices 30 deep around many values.
TEST(SchemaGrammarTest, RefusesCombinatorialSchemasQuickly) {
  Schema wide;
  for (int i = 0; i < 20; ++i) {
    wide["allOf"].push_back(
        {{"anyOf", {{{"minLength", 1}}, {{"maxLength", 9}}, {{"title", "t"}}}}});
  }
  Schema deep;
  for (int i = 0; i < 60'000; ++i) deep["enum"].push_back(i);
  for (int i = 0; i < 30; ++i) {
    Schema around = {{"type", "integer"}};
    around["anyOf"].push_back(std::move(deep));
    deep = std::move(around);
  }
  for (const Schema& schema : {wide, deep}) {
    const Instant begun = Clock::now();
    SchemaGrammar rules("schema");
    rules.rule_of(schema);
    ASSERT_TRUE(rules.error());
    EXPECT_NE(rules.error()->message.find("too large"), std::string::npos);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
  }
}

TEST(SchemaGrammarTest, TypeSpecificKeywordImpliesType) {
  expect(R"({"minLength": 2})", {R"("ab")"}, {R"("a")", "1"});
  expect(R"({"minItems": 1})", {"[1]"}, {"[]", "1"});
  expect(R"({"additionalProperties": {"type": "integer"}})", {R"({"a":1})"}, {R"({"a":"b"})", "1"});
  expect(R"({"properties": {"a": {"const": 1}}, "unevaluatedProperties": false})", {R"({"a":1})"},
         {R"({"b":1})"});
}

TEST(SchemaGrammarTest, AcceptsRecursiveReferences) {
  expect(R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
             "v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/tree"},
             {"type": "null"}]}}, "required": ["v", "next"]}}})",
         {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})"});
  expect(R"({"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}, "minItems": 1}]})",
         {"null", "[null]", "[[null], null]"}, {"[]"});
}

TEST(SchemaGrammarTest, DecodesReferencesAsUriFragments) {
  expect(R"({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"const": 1}}})", {"1"}, {"2"});
  expect(R"({"$ref": "#/%24defs/a~1b", "$defs": {"a/b": {"const": 1}}})", {"1"}, {"2"});
}

std::string why_refused(const std::string& schema) {
  SchemaGrammar rules("schema");
  const Schema parsed = Schema::parse(schema);
  rules.rule_of(parsed);
  return rules.error() ? rules.error()->message : "";
}

// A grammar's error would use names that the user has never seen.
TEST(SchemaGrammarTest, RefusesReferencesThatLeadToThemselves) {
  for (
      const char* schema :
      {R"({"$ref": "#"})", R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})",
       R"({"allOf": [{"oneOf": [{"$ref": "#"}]}]})",
       R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}})",
       R"({"properties": {"x": {"anyOf": [{"items": {"$ref": "#/$defs/b"}}, {"$ref": "#/$defs/b"}]}},
            "$defs": {"b": {"$ref": "#/properties/x"}}})"}) {
    SCOPED_TRACE(schema);
    const std::string refusal = why_refused(schema);
    EXPECT_NE(refusal.find("refers to itself"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("'schema'"), std::string::npos) << refusal;
  }
}

TEST(SchemaGrammarTest, RefusalsNameUsedKeyword) {
  for (const char* name : {"prefixItems", "items"}) {
    const std::string word = name;
    const std::string refusal = why_refused(R"({"type": "array", ")" + word + R"(": []})");
    EXPECT_NE(refusal.find(": " + word + " must be a non-empty array"), std::string::npos)
        << refusal;
  }
}

TEST(SchemaGrammarTest, RefusesMalformedSchemas) {
  for (const char* schema :
       {R"({"type": "string", "pattern": 3})", R"({"type": "integer", "minimum": "3"})",
        R"({"type": "thing"})", R"({"type": 3})", R"({"type": []})", R"({"enum": []})", "3",
        R"({"anyOf": []})", R"({"allOf": {}})", R"({"$ref": 3})", R"({"$ref": "#/$defs/none"})",
        R"({"$ref": "#/nonsense~"})", R"({"type": "string", "maxLength": -1})",
        R"({"type": "array", "minItems": 1.5})", R"({"properties": 3})", R"({"required": "a"})",
        R"({"required": [3]})"}) {
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

// Searching each name among all others would take minutes.
TEST(SchemaGrammarTest, StaysFastForManyNames) {
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
      // Mostly plain letters, so that texts end.
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

TEST(SchemaGrammarTest, EveryAcceptedTextIsJson) {
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
}  // namespace edgedraft::client
