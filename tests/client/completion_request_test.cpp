#include "client/serve/request/completion_request.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "shared/constraints/grammar.h"
#include "shared/types/constraints.h"
#include "tests/support/expect.h"

namespace edgedraft::client {
namespace {

const CompletionDefaults kDefaults{.tokens_max = 100,
                                   .sampling = {.temperature = 0.5f, .seed = 9},
                                   .offline = OfflinePolicy::keep};
constexpr std::uint64_t kRandomSeed = 77;

ApiResult<CompletionRequest> chat_body(const std::string& body) {
  return parse_completion(body, CompletionKind::chat, kDefaults, kRandomSeed);
}

ApiResult<CompletionRequest> chat(const std::string& fields = "") {
  return chat_body(R"({"messages": [{"role": "user", "content": "Hi"}])" + fields + "}");
}

ApiResult<CompletionRequest> text(const std::string& body) {
  return parse_completion(body, CompletionKind::text, kDefaults, kRandomSeed);
}

// True if a request is refused for this field with a message that contains `part`.
::testing::AssertionResult refused(const ApiResult<CompletionRequest>& request,
                                   std::string_view param, std::string_view part = {}) {
  if (request) return ::testing::AssertionFailure() << "accepted";
  if (request.error().param != param) {
    return ::testing::AssertionFailure()
           << "for '" << request.error().param << "': " << request.error().message;
  }
  return contains(request.error().message, part);
}

TEST(CompletionRequestTest, AbsentFieldsTakeDefaults) {
  const auto request = chat();
  ASSERT_TRUE(request);
  ASSERT_EQ(request->messages.size(), 1u);
  EXPECT_EQ(request->messages[0].content, "Hi");
  EXPECT_EQ(request->tokens_max, 100u);
  EXPECT_EQ(request->sampling.temperature, 0.5f);
  EXPECT_EQ(request->sampling.seed, kRandomSeed);
  EXPECT_EQ(request->choices, 1u);
  EXPECT_EQ(request->offline, OfflinePolicy::keep);
  EXPECT_FALSE(request->streams);
}

TEST(CompletionRequestTest, ReadsFields) {
  const auto request = chat(
      R"(, "max_tokens": 7, "temperature": 1.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05,
         "seed": -1, "n": 3, "stop": ["a", "b"], "stream": true, "offline": "wait",
         "stream_options": {"include_usage": true, "include_obfuscation": true}, "user": "me",
         "unheard_of": {"x": 1})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->tokens_max, 7u);
  EXPECT_EQ(request->sampling, (SamplingParams{.temperature = 1.5f,
                                               .top_k = 40,
                                               .top_p = 0.9f,
                                               .min_p = 0.05f,
                                               .seed = 0xFFFFFFFFFFFFFFFFu}));
  EXPECT_EQ(request->choices, 3u);
  EXPECT_EQ(request->constraints.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request->streams && request->includes_usage && request->obfuscates);
  EXPECT_EQ(request->offline, OfflinePolicy::wait);
}

TEST(CompletionRequestTest, NullCountsAsAbsent) {
  const auto request = chat(
      R"(, "max_tokens": null, "temperature": null, "stop": null, "n": null, "stream": null,
         "stream_options": null, "tools": null, "response_format": null, "logprobs": null,
         "logit_bias": null, "presence_penalty": 0, "tools": [], "logprobs": false,
         "response_format": {"type": "text"}, "max_completion_tokens": -1)");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->tokens_max, 100u);
}

// A function without parameters takes any, and a format without a schema accepts any object.
TEST(CompletionRequestTest, NullInToolOrFormatCountsAsAbsent) {
  const auto tools = [](const std::string& rest) {
    return chat(R"(, "tool_choice": "required", "tools": [{"type": "function", "function":
                {"name": "f")" +
                rest + "}}]");
  };
  const auto with_null = tools(R"(, "description": null, "parameters": null)");
  ASSERT_TRUE(with_null) << with_null.error().message;
  EXPECT_EQ(with_null->constraints.grammar, tools("")->constraints.grammar);
  const auto format = chat(R"(, "response_format": {"type": "json_object", "schema": null})");
  ASSERT_TRUE(format) << format.error().message;
  EXPECT_EQ(format->constraints.grammar,
            chat(R"(, "response_format": {"type": "json_object"})")->constraints.grammar);
  for (const char* const named :
       {R"({"type": "json_schema"})", R"({"type": "json_schema", "json_schema": null})",
        R"({"type": "json_schema", "json_schema": {"schema": null}})"}) {
    const auto request = chat(R"(, "response_format": )" + std::string(named));
    EXPECT_TRUE(refused(request, "response_format", "with a 'schema'")) << named;
  }
}

// Ignoring them would silently change the answer.
TEST(CompletionRequestTest, RefusesDeprecatedFunctionFieldsAndNamesReplacements) {
  for (const auto& [fields, param, instead] :
       {std::tuple(R"("functions": [{"name": "f"}])", "functions", "'tools'"),
        std::tuple(R"("function_call": "auto")", "function_call", "'tool_choice'")}) {
    EXPECT_TRUE(refused(chat(std::string(", ") + fields), param, instead)) << fields;
  }
  EXPECT_TRUE(chat(R"(, "functions": null, "function_call": null)"));
}

TEST(CompletionRequestTest, RefusesBestOfAboveChoiceCount) {
  EXPECT_TRUE(refused(text(R"({"prompt": "a", "n": 2, "best_of": 3})"), "best_of", "'n'"));
  EXPECT_TRUE(refused(text(R"({"prompt": "a", "best_of": "all"})"), "best_of"));
  EXPECT_TRUE(text(R"({"prompt": "a", "n": 3, "best_of": 3})"));
  EXPECT_TRUE(text(R"({"prompt": "a", "best_of": null})"));
}

TEST(CompletionRequestTest, JoinsContentParts) {
  const auto request = chat_body(
      R"({"messages": [{"role": "developer", "content": [{"type": "text", "text": "a"},
          {"type": "text", "text": "b"}]}, {"role": "assistant", "content": null}]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->messages[0].role, "system");
  EXPECT_EQ(request->messages[0].content, "ab");
  EXPECT_EQ(request->messages[1].content, "");
}

TEST(CompletionRequestTest, ReadsPrediction) {
  const auto request = chat_body(
      R"({"messages": [{"role": "user", "content": "?"}], "prediction": {"type": "content",
          "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->prediction, "ab");
}

TEST(CompletionRequestTest, KeepsReasoningOfEarlierAnswers) {
  const char* const body =
      R"({"messages": [{"role": "user", "content": "?", "reasoning_content": "mine"},
          {"role": "assistant", "content": "4", "reasoning_content": "2 + 2"},
          {"role": "user", "content": "!"}]})";
  const auto request = chat_body(body);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->messages[0].reasoning, "");
  EXPECT_EQ(request->messages[1].reasoning, "2 + 2");
}

TEST(CompletionRequestTest, RefusesReservedOrNonScalarTemplateVariables) {
  const auto set = [](const std::string& variables) {
    return chat(R"(, "chat_template_kwargs": )" + variables);
  };
  EXPECT_EQ(set("null")->template_variables, "");
  EXPECT_EQ(set(R"({"enable_thinking": false, "effort": "high", "n": 1.5})")->template_variables,
            R"({"effort":"high","enable_thinking":false,"n":1.5})");
  for (const auto& [variables, param] :
       {std::pair("3", "chat_template_kwargs"), std::pair("[]", "chat_template_kwargs"),
        std::pair(R"({"a": [1]})", "chat_template_kwargs.a"),
        std::pair(R"({"messages": "x"})", "chat_template_kwargs.messages")}) {
    EXPECT_TRUE(refused(set(variables), param)) << variables;
  }
}

TEST(CompletionRequestTest, ToolCallsWaitForTargetWithTimeout) {
  const std::string tools = R"(, "tools": [{"type": "function", "function": {"name": "f"}}])";
  EXPECT_EQ(chat(tools)->wait_max, std::chrono::seconds(30));
  EXPECT_EQ(chat(tools + R"(, "offline": "keep")")->wait_max, std::chrono::seconds(30));
  EXPECT_EQ(chat(tools + R"(, "offline": "wait")")->wait_max, Duration::max());
  EXPECT_EQ(chat(R"(, "offline": "wait")")->wait_max, Duration::max());
}

// Only the target's tokens have its probabilities.
TEST(CompletionRequestTest, LogProbabilitiesRequireTarget) {
  const auto wanted = chat(R"(, "logprobs": true, "top_logprobs": 3, "route": "auto")");
  ASSERT_TRUE(wanted) << wanted.error().message;
  EXPECT_EQ(wanted->logprobs, 4u);
  EXPECT_EQ(wanted->offline, OfflinePolicy::wait);
  EXPECT_EQ(wanted->route, WritingSide::server);
  EXPECT_EQ(chat(R"(, "logprobs": true)")->logprobs, 1u);
  EXPECT_EQ(chat(R"(, "logprobs": false)")->logprobs, 0u);
  EXPECT_EQ(text(R"({"prompt": "a", "logprobs": 0})")->logprobs, 1u);
  EXPECT_TRUE(refused(text(R"({"prompt": "a", "logprobs": 2, "echo": true})"), "logprobs"));
}

struct Wrong {
  const char* fields;
  const char* param;
};

TEST(CompletionRequestTest, NamesEachInvalidField) {
  for (const Wrong& wrong : {
           Wrong{R"("temperature": "hot")", "temperature"},
           Wrong{R"("temperature": -0.1)", "temperature"},
           Wrong{R"("temperature": 1e300)", "temperature"},
           Wrong{R"("top_p": 0)", "top_p"},
           Wrong{R"("top_k": 1.5)", "top_k"},
           Wrong{R"("seed": 1.5)", "seed"},
           Wrong{R"("n": 0)", "n"},
           Wrong{R"("n": 17)", "n"},
           Wrong{R"("max_tokens": 0)", "max_tokens"},
           Wrong{R"("max_tokens": 18446744073709551615)", "max_tokens"},
           Wrong{R"("stop": [])", ""},
           Wrong{R"("stop": [""])", "stop"},
           Wrong{R"("stop": [1])", "stop"},
           Wrong{R"("stop": {})", "stop"},
           Wrong{R"("prediction": "text")", "prediction"},
           Wrong{R"("prediction": {"type": "tokens"})", "prediction"},
           Wrong{R"("prediction": {"content": 1})", "prediction.content"},
           Wrong{R"("stream": "yes")", "stream"},
           Wrong{R"("stream_options": 3)", "stream_options"},
           Wrong{R"("stream_options": {"include_usage": 1})", "stream_options.include_usage"},
           Wrong{R"("offline": "never")", "offline"},
           Wrong{R"("logprobs": 3)", "logprobs"},
           Wrong{R"("reasoning_format": "loud")", "reasoning_format"},
           Wrong{R"("top_logprobs": 3)", "top_logprobs"},
           Wrong{R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
           Wrong{R"("presence_penalty": 2.5)", "presence_penalty"},
           Wrong{R"("frequency_penalty": 3)", "frequency_penalty"},
           Wrong{R"("logit_bias": {"5": 101})", "logit_bias"},
           Wrong{R"("logit_bias": {"-5": 1})", "logit_bias"},
           Wrong{R"("logit_bias": [1])", "logit_bias"},
           Wrong{R"("grammar": {})", "grammar"},
           Wrong{R"("response_format": {"type": "xml"})", "response_format"},
           Wrong{R"("response_format": {"type": "json_schema"})", "response_format"},
           Wrong{R"("response_format": {"type": "json_schema", "json_schema":
                    {"strict": true, "schema": {"type": "number", "multipleOf": 2}}})",
                 "response_format"},
           Wrong{R"("response_format": {"type": "json_schema", "json_schema":
                    {"schema": {"type": "text"}}})",
                 "response_format"},
           Wrong{R"("response_format": {"type": "json_object"}, "grammar": "root ::= [a]")",
                 "response_format"},
           Wrong{R"("logprobs": true, "route": "device")", "logprobs"},
           Wrong{R"("tools": [{"type": "function", "function": {"name": "f"}}], "route": "device")",
                 "tools"},
           Wrong{R"("tools": {})", "tools"},
           Wrong{R"("tools": [{"type": "function"}])", "tools[0]"},
           Wrong{
               R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "x")",
               "tool_choice"},
           Wrong{R"("tool_choice": {"type": "function", "function": {"name": "f"}})",
                 "tool_choice"},
           Wrong{R"("tools": [{"type": "function", "function": {"name": "f", "parameters":
                    {"type": "object", "properties": {"x": {"type": "text"}}}}}])",
                 "tools"},
       }) {
    SCOPED_TRACE(wrong.fields);
    const auto request = chat(std::string(", ") + wrong.fields);
    if (*wrong.param == '\0') {
      EXPECT_TRUE(request);
      continue;
    }
    ASSERT_TRUE(refused(request, wrong.param, wrong.param));
    EXPECT_EQ(request.error().status, 400u);
  }
}

// Every number of the API at the ends of the types that could hold it.
TEST(CompletionRequestTest, RefusesNegativeAndHugeNumbersOutsideRanges) {
  const std::vector<std::string> extremes = {"-1",
                                             "0",
                                             "-2147483649",
                                             "2147483648",
                                             "4294967296",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "18446744073709551615",
                                             "18446744073709551616",
                                             "-9223372036854775808",
                                             "-9223372036854775809",
                                             "1e308",
                                             "-1e308",
                                             "1e-308"};
  struct Number {
    const char* before;
    const char* after;
    std::set<std::string> valid;
  };
  const std::set<std::string> of_length = {"-1", "2147483648"};
  const std::set<std::string> near_zero = {"0", "1e-308"};
  const std::vector<Number> chats = {
      {R"("temperature": )", "", near_zero},
      {R"("top_p": )", "", {}},
      {R"("min_p": )", "", near_zero},
      {R"("top_k": )", "", {"-1", "0"}},
      {R"("n": )", "", {}},
      {R"("max_tokens": )", "", of_length},
      {R"("max_completion_tokens": )", "", of_length},
      {R"("presence_penalty": )", "", {"-1", "0", "1e-308"}},
      {R"("frequency_penalty": )", "", {"-1", "0", "1e-308"}},
      {R"("logit_bias": {"5": )", "}", {"-1", "0", "1e-308"}},
      {R"("logit_bias": {")", R"(": 1})", {"0"}},
      {R"("logprobs": true, "top_logprobs": )", "", {"0"}},
  };
  const auto expect = [](const auto& request, const Number& number, const std::string& value) {
    const bool is_valid = number.valid.contains(value);
    EXPECT_EQ(request.has_value(), is_valid) << number.before << value << number.after;
    if (!request.has_value()) {
      EXPECT_EQ(request.error().status, 400u) << number.before << value;
    }
  };
  for (const std::string& value : extremes) {
    for (const Number& number : chats) {
      expect(chat(std::string(", ") + number.before + value + number.after), number, value);
    }
    const std::vector<Number> texts = {{R"({"prompt": [)", "]}", {"0"}},
                                       {R"({"prompt": "a", "best_of": )", "}", {"0"}},
                                       {R"({"prompt": "a", "logprobs": )", "}", {"0"}}};
    for (const Number& number : texts) {
      expect(text(number.before + value + number.after), number, value);
    }
  }
  // JSON has neither of these.
  for (const char* const value : {"NaN", "Infinity", "-Infinity", "1e400"}) {
    EXPECT_FALSE(chat(std::string(R"(, "temperature": )") + value)) << value;
    EXPECT_FALSE(chat(std::string(R"(, "seed": )") + value)) << value;
  }
}

// Each of these made an agent or a library fail.
TEST(CompletionRequestTest, AcceptsToolsWithAnySchemaKeyword) {
  for (const char* const schema :
       {R"({"type": "integer", "minimum": 1})", R"({"type": "integer", "maximum": 9})",
        R"({"type": "number", "exclusiveMinimum": 0})", R"({"type": "number", "multipleOf": 0.5})",
        R"({"type": "string", "pattern": "^(?!\\.)[a-z]+@"})",
        R"({"type": "array", "uniqueItems": true})",
        R"({"type": "object", "propertyNames": {"type": "string"}})",
        R"({"type": "object", "patternProperties": {"^x": {}}})",
        R"({"type": "object", "minProperties": 1})", R"({"not": {"type": "null"}})",
        R"({"allOf": [{"type": "string"}, {"minLength": 1}]})",
        R"({"if": {"const": 1}, "then": {"const": 1}})",
        R"({"type": "array", "contains": {"const": 1}})",
        R"({"type": "object", "dependentRequired": {"a": ["b"]}})",
        R"({"type": "string", "maxLength": 5000})",
        R"({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
        R"({"type": "string", "format": "email"})", R"({"type": "string", "format": "uri"})"}) {
    for (const char* const use : {"auto", "required"}) {
      const auto request =
          chat(R"(, "tool_choice": ")" + std::string(use) +
               R"(", "tools": [{"type": "function", "function": {"name": "f", "strict": false,
                  "parameters": {"type": "object", "properties": {"x": )" +
               schema + "}}}}]");
      ASSERT_TRUE(request) << schema << ": " << request.error().message;
      EXPECT_TRUE(Grammar::parse(request->constraints.grammar)) << schema;
      EXPECT_NE(request->messages[0].content.find("\"parameters\""), std::string::npos);
    }
    EXPECT_TRUE(chat(R"(, "response_format": {"type": "json_schema", "json_schema": {"schema": )" +
                     std::string(schema) + "}}"))
        << schema;
  }
}

TEST(CompletionRequestTest, RefusesStrictSchemasAndListsUnenforcedKeywords) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "integer",
      "multipleOf": 2}, "b": {"type": "array", "uniqueItems": true}, "c": {"not": {}}}})";
  const auto tool = [&](const std::string& name, const std::string& strict) {
    return R"({"type": "function", "function": {"name": ")" + name + R"(", "strict": )" + strict +
           R"(, "parameters": )" + schema + "}}";
  };
  const auto loose = chat(R"(, "tools": [)" + tool("f", "false") + "]");
  ASSERT_TRUE(loose);
  EXPECT_EQ(loose->unenforced, (std::set<std::string>{"multipleOf", "not", "uniqueItems"}));
  const auto strict = chat(R"(, "tools": [)" + tool("f", "true") + "," + tool("g", "true") + "]");
  for (const char* const part : {"function 'f': multipleOf, not, uniqueItems",
                                 "function 'g': multipleOf, not, uniqueItems"}) {
    EXPECT_TRUE(refused(strict, "tools", part));
  }
  const auto format = chat(R"(, "response_format": {"type": "json_schema", "json_schema":
                              {"strict": true, "schema": )" +
                           schema + "}}");
  EXPECT_TRUE(refused(format, "response_format", "multipleOf, not, uniqueItems"));
}

// Programs read these answers and would take a drafter's text for the target's.
TEST(CompletionRequestTest, SchemaAnswersWaitForServerByDefault) {
  const std::string format = R"(, "response_format": {"type": "json_object"})";
  EXPECT_EQ(chat(format)->offline, OfflinePolicy::wait);
  EXPECT_EQ(chat(format + R"(, "offline": "keep")")->offline, OfflinePolicy::keep);
  EXPECT_EQ(chat(R"(, "response_format": {"type": "text"})")->offline, OfflinePolicy::keep);
}

TEST(CompletionRequestTest, AttributesOversizedGrammarToItsField) {
  const std::string large(kGrammarBytesMax, 'a');
  const std::string schema = R"({"const": ")" + large + R"("})";
  EXPECT_TRUE(refused(chat(R"(, "grammar": "root ::= \")" + large + R"(\"")"), "grammar"));
  for (const auto& [field, before, after] :
       {std::tuple("json_schema", "", ""),
        std::tuple("response_format", R"({"type": "json_schema", "json_schema": {"schema": )",
                   "}}"),
        std::tuple("tools", R"([{"type": "function", "function": {"name": "f", "parameters": )",
                   "}}]")}) {
    EXPECT_TRUE(
        refused(chat(", \"" + std::string(field) + "\": " + before + schema + after), field));
  }
}

TEST(CompletionRequestTest, NamesEachInvalidMessage) {
  for (const Wrong& wrong : {
           Wrong{R"({})", "messages"},
           Wrong{R"({"messages": "Hi"})", "messages"},
           Wrong{R"({"messages": ["Hi"]})", "messages[0]"},
           Wrong{R"({"messages": [{"content": "Hi"}]})", "messages[0].role"},
           Wrong{R"({"messages": [{"role": "root", "content": "Hi"}]})", "messages[0].role"},
           Wrong{R"({"messages": [{"role": "user"}]})", "messages[0].content"},
           Wrong{R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
           Wrong{R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
                 "messages[0].content[0]"},
           Wrong{R"({"messages": [{"role": "user", "content": [7]}]})", "messages[0].content[0]"},
           Wrong{R"({"messages": [{"role": "user", "content": "a"},
                                  {"role": "assistant", "tool_calls": [{}]}]})",
                 "messages[1].tool_calls"},
       }) {
    EXPECT_TRUE(refused(chat_body(wrong.fields), wrong.param)) << wrong.fields;
  }
  EXPECT_TRUE(refused(chat_body(R"({"messages": []})"), "messages", "empty"));
}

TEST(CompletionRequestTest, RefusesBodiesThatAreNotObjects) {
  for (const char* body : {"", "{", "[]", "5", "\"x\"", "{\"a\": \xff}"}) {
    const auto request = chat_body(body);
    ASSERT_FALSE(request) << body;
    EXPECT_EQ(request.error().code, "invalid_json");
  }
  EXPECT_FALSE(chat_body(std::string(200'000, '[')));
  EXPECT_TRUE(chat(R"(, "x": )" + std::string(100'000, '[') + std::string(100'000, ']')));
}

TEST(CompletionRequestTest, AcceptsPromptsAsTextOrTokens) {
  const auto only = [](const std::string& body) {
    const auto request = text(body);
    EXPECT_EQ(request->prompts.size(), 1u);
    return request->prompts.front();
  };
  const std::vector<std::uint32_t> ids{1, 2};
  EXPECT_EQ(only(R"({"prompt": "a"})").text, "a");
  EXPECT_EQ(only(R"({"prompt": ["a"]})").text, "a");
  EXPECT_EQ(only(R"({"prompt": [1, 2]})").tokens, ids);
  EXPECT_EQ(only(R"({"prompt": [[1, 2]]})").tokens, ids);
  const auto several = text(R"({"prompt": ["a", [1, 2]], "n": 8, "seed": 5})");
  ASSERT_EQ(several->prompts.size(), 2u);
  EXPECT_EQ(several->prompts[1].tokens, ids);
  EXPECT_EQ(several->seed_of(8), 5u);
  EXPECT_EQ(several->seed_of(9), several->seed_of(1));
  EXPECT_TRUE(refused(text(R"({"prompt": ["a", "b"], "n": 9})"), "n"));
  for (const char* body :
       {R"({})", R"({"prompt": ""})", R"({"prompt": []})", R"({"prompt": ["a", ""]})",
        R"({"prompt": ["a", 5]})", R"({"prompt": [5, "a"]})", R"({"prompt": [[]]})",
        R"({"prompt": [-1]})", R"({"prompt": [4294967296]})", R"({"prompt": {"a": 1}})"}) {
    EXPECT_TRUE(refused(text(body), "prompt")) << body;
  }
}

TEST(CompletionRequestTest, TextCompletionsAcceptResponseFormat) {
  const auto request = text(R"({"prompt": "a", "response_format": {"type": "json_object"}})");
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->answers_json);
  EXPECT_FALSE(request->constraints.grammar.empty());
  EXPECT_EQ(text(R"({"prompt": "a", "json_schema": {"const": 5}})")->constraints.grammar,
            chat(R"(, "json_schema": {"const": 5})")->constraints.grammar);
  EXPECT_TRUE(
      refused(text(R"({"prompt": "a", "response_format": {"type": "xml"}})"), "response_format"));
  EXPECT_FALSE(text(R"({"prompt": "a"})")->answers_json);
}

TEST(CompletionRequestTest, LastAssistantMessageBeginsAnswer) {
  const auto of = [](const std::string& messages) {
    return chat_body(R"({"messages": [)" + messages + "]}");
  };
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const std::string begun = R"(, {"role": "assistant", "content": "Well, "})";
  const auto request = of(user + begun);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->begun, "Well, ");
  ASSERT_EQ(request->messages.size(), 1u);
  EXPECT_EQ(of(user + begun + "," + user)->begun, "");
  EXPECT_EQ(of(user + begun + "," + user)->messages.size(), 3u);
  for (const std::string& wrong : {user + begun + begun, begun.substr(2)}) {
    EXPECT_TRUE(refused(of(wrong), "messages")) << wrong;
  }
  // A message with a call is complete and cannot be continued.
  EXPECT_EQ(of(user + R"(, {"role": "assistant", "content": "a", "tool_calls": [{"id": "1",
               "type": "function", "function": {"name": "f", "arguments": "{}"}}]})")
                ->begun,
            "");
}

TEST(CompletionRequestTest, RendersToolCallsAndResultsAsMessages) {
  const auto request = chat_body(
      R"({"messages": [{"role": "user", "content": "Weather?"},
          {"role": "assistant", "content": null, "tool_calls": [
             {"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{\"a\": 1}"}},
             {"id": "c2", "type": "function", "function": {"name": "put", "arguments": "{}"}}]},
          {"role": "tool", "tool_call_id": "c2", "content": "done"},
          {"role": "tool", "tool_call_id": "c1", "content": "rain"}],
          "tools": [{"type": "function", "function": {"name": "get", "description": "Gets."}}]})");
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->messages.size(), 4u);
  EXPECT_EQ(request->messages[0].role, "system");
  EXPECT_NE(request->messages[0].content.find("\"description\":\"Gets.\""), std::string::npos);
  EXPECT_EQ(request->messages[2].content,
            "{\"name\": \"get\", \"arguments\": {\"a\": 1}}\n"
            "{\"name\": \"put\", \"arguments\": {}}");
  EXPECT_EQ(request->messages[3].role, "user");
  EXPECT_EQ(request->messages[3].content, "Result of put: done\nResult of get: rain");
  EXPECT_EQ(request->offline, OfflinePolicy::wait) << "tool calls must come from the target";
  const auto none = chat(R"(, "tool_choice": "none", "tools": [{"type": "function", "function":
                            {"name": "f", "parameters": {"pattern": "x"}}}])");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->constraints.empty());
}

TEST(CompletionRequestTest, ChoicesHaveOwnSeedsAndFirstUsesRequestSeed) {
  const auto request = chat(R"(, "seed": 5, "n": 16)");
  std::set<std::uint64_t> seeds;
  for (std::uint32_t i = 0; i < 16; ++i) seeds.insert(request->seed_of(i));
  EXPECT_EQ(seeds.size(), 16u);
  EXPECT_EQ(request->seed_of(0), 5u);
  EXPECT_EQ(chat(R"(, "seed": 5, "n": 4)")->seed_of(3), request->seed_of(3));
}

}  // namespace
}  // namespace edgedraft::client
