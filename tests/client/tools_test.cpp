#include "client/serve/text/tools.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/serve/text/visible_text.h"
#include "tests/client/grammar_text.h"

namespace edgedraft::client {
namespace {

using Schema = nlohmann::ordered_json;
using test::accepts;
using test::automaton_of;

// Templates built as published ones are: text around messages, then each template's own form of
// calls and results.
const std::string kToolsTold =
    "{%- if tools %}{{- 'TOOLS ' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}"
    "{{- '\n' }}{%- endif %}";
std::string chat_with(const std::string& message) {
  return kToolsTold + "{%- for message in messages %}{{- '<|im_start|>' }}" + message +
         "{{- '<|im_end|>\n' }}{%- endfor %}"
         "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}";
}
// Calls between marks, arguments as text or an object.
const std::string kMarked = chat_with(
    "{%- if message.role == 'tool' %}{{- 'user\n<tool_response>\n' + message.content +"
    " '\n</tool_response>' }}{%- else %}{{- message.role + '\n' + message.content }}"
    "{%- for call in message.tool_calls %}{%- set call = call.function %}"
    "{%- if message.content or not loop.first %}{{- '\n' }}{%- endif %}"
    "{{- '<tool_call>\n{\"name\": \"' + call.name + '\", \"arguments\": ' }}"
    "{%- if call.arguments is string %}{{- call.arguments }}{%- else %}"
    "{{- call.arguments | tojson }}{%- endif %}{{- '}\n</tool_call>' }}{%- endfor %}{%- endif %}");
// One call, an object with the field "parameters".
const std::string kParameters = chat_with(
    "{%- if message.tool_calls %}{%- if message.tool_calls | length > 1 %}"
    "{{- raise_exception('one call at a time') }}{%- endif %}"
    "{%- set call = message.tool_calls[0].function %}"
    "{{- 'assistant\n{\"name\": \"' + call.name + '\", \"parameters\": ' }}"
    "{{- call.arguments | tojson }}{{- '}' }}"
    "{%- else %}{{- message.role + '\n' + message.content }}{%- endif %}");
const std::string kNumbered = chat_with(
    "{{- message.role + '\n' + message.content }}{%- if message.tool_calls %}{{- '[CALLS] [' }}"
    "{%- for call in message.tool_calls %}{{- call.function | tojson }}{{- call.id }}"
    "{%- endfor %}{{- ']' }}{%- endif %}");

std::string grammar_of(const Tools& tools) {
  std::set<std::string> unenforced;
  return tools.grammar(unenforced).value();
}

class CallFormTest : public ::testing::Test {
 protected:
  CallForm form_of(const std::string& source) const {
    const ChatTemplate chat = ChatTemplate::parse(source).value();
    return call_form_of([&](const ChatInput& input) { return bundle_.render_chat(chat, input); },
                        bundle_.tokenizer());
  }

  BundleFile bundle_ = BundleFile::open(EDGEDRAFT_MODELS "/target.gguf", BundleUse::plain).value();
};

TEST_F(CallFormTest, FollowsTemplate) {
  const CallForm marked = form_of(kMarked);
  EXPECT_TRUE(marked.is_templates);
  EXPECT_EQ(marked.begin, "<tool_call>\n{\"name\": \"");
  EXPECT_EQ(marked.middle, "\", \"arguments\": ");
  EXPECT_EQ(marked.between, "}\n</tool_call>\n<tool_call>\n{\"name\": \"");
  EXPECT_EQ(marked.end, "}\n</tool_call>");
  EXPECT_EQ(marked.arguments, CallArguments::text);
  EXPECT_EQ(marked.mark(), "<tool_call>");

  const CallForm parameters = form_of(kParameters);
  EXPECT_TRUE(parameters.is_templates);
  EXPECT_EQ(parameters.middle, "\", \"parameters\": ");
  EXPECT_FALSE(parameters.between) << "the template refuses two calls";
  EXPECT_EQ(parameters.arguments, CallArguments::object);
  EXPECT_EQ(parameters.mark(), "");
}

TEST_F(CallFormTest, IsDefaultIfTemplateHasNone) {
  EXPECT_EQ(form_of(kNumbered), CallForm());
  // Without functions, calls or results, or with calls made of control tokens.
  const std::string marked = kMarked;
  std::string no_tools = marked;
  no_tools.replace(no_tools.find("{{- tool | tojson }}"), 20, "");
  std::string no_results = marked;
  no_results.replace(no_results.find("+ message.content +"), 19, "+");
  std::string control = marked;
  control.replace(control.find("<tool_call>"), 11, "<s>");
  for (const std::string& source :
       {no_tools, no_results, control, chat_with("{{- message.role + message.content }}")}) {
    EXPECT_EQ(form_of(source), CallForm()) << source;
  }
}

TEST_F(CallFormTest, AllowsTextBeforeMarkedCalls) {
  Tools tools{.list = {{.name = "get", .parameters = Schema::parse(R"({"type": "object",
                       "properties": {"x": {"type": "integer"}}, "required": ["x"]})")}},
              .use = ToolUse::free,
              .form = form_of(kMarked)};
  const ChatCall one{.name = "get", .arguments = R"({"x": 1})"};
  const ChatCall both[] = {one, {.name = "get", .arguments = R"({"x": 22})"}};
  const std::string calls = tools.form.written(both);
  GrammarAutomaton free = automaton_of(grammar_of(tools));
  for (const std::string& text :
       {calls, "I'll look.\n" + calls, std::string(), std::string("<tool"),
        std::string("{\"name\": \"Bob\"} <<tool_cal <b>"), "<<tool_" + calls}) {
    EXPECT_TRUE(accepts(free, text)) << text;
  }
  for (const std::string& text : {calls + "x", std::string("<tool_call>"),
                                  std::string("a <tool_call> b"), calls.substr(0, 40)}) {
    EXPECT_FALSE(accepts(free, text)) << text;
  }
  tools.use = ToolUse::forced;
  GrammarAutomaton forced = automaton_of(grammar_of(tools));
  EXPECT_TRUE(accepts(forced, calls));
  EXPECT_FALSE(accepts(forced, "I'll look.\n" + calls));

  const std::string answer = "I'll <look.\n" + calls;
  const std::size_t at = tools.form.calls_at(answer);
  EXPECT_EQ(answer.substr(at), calls);
  EXPECT_EQ(tools.form.parse(calls), std::vector<ChatCall>(both, both + 2));
  EXPECT_EQ(tools.form.calls_at("I'll <"), 5u);
  EXPECT_EQ(tools.form.calls_at("<tool_cat"), 9u);
}

TEST_F(CallFormTest, AllowsMarksOfAnyCharacters) {
  std::string source = kMarked;
  for (const std::string mark : {"<tool_call>", "</tool_call>"}) {
    source.replace(source.find(mark), mark.size(), "‹tool▁call›");
  }
  Tools tools{.list = {{.name = "get", .parameters = Schema::parse(R"({"type": "object"})")}},
              .use = ToolUse::free,
              .form = form_of(source)};
  const ChatCall call{.name = "get", .arguments = "{}"};
  const std::string calls = tools.form.written(std::span(&call, 1));
  ASSERT_TRUE(calls.starts_with("‹tool▁call›")) << calls;
  GrammarAutomaton free = automaton_of(grammar_of(tools));
  for (const std::string& text : {calls, "Ich sehe ‹nach›.\n" + calls, std::string("‹tool▁ca‹")}) {
    EXPECT_TRUE(accepts(free, text)) << text;
  }
  EXPECT_FALSE(accepts(free, "a ‹tool▁call› b"));
}

// For any split into pieces, text is given out as it arrives and calls are held back.
TEST_F(CallFormTest, StreamHoldsBackOnlyCalls) {
  const CallForm form = form_of(kMarked);
  const ChatCall call{.name = "get", .arguments = "{}"};
  const std::string said = "A <b> of <tool";
  const std::string answer = said + form.written(std::span(&call, 1));
  for (const bool is_call : {true, false}) {
    VisibleText text({.tokenizer = bundle_.tokenizer(),
                      .leading_space = LeadingSpace::keep,
                      .stops = {},
                      .thoughts = Thoughts::none,
                      .calls = &form});
    std::string given;
    const auto take = [&] {
      for (const VisibleText::Piece& piece : text.take()) given += piece.text;
    };
    for (const char c : is_call ? answer : said) {
      for (const std::uint32_t id :
           bundle_.tokenizer().encode(std::string_view(&c, 1), Special::plain)) {
        text.add(id, Provenance::verified);
      }
      take();
      EXPECT_TRUE(said.starts_with(given)) << given;
    }
    EXPECT_EQ(given, is_call ? said : "A <b> of ");
    text.finish();
    if (is_call) {
      EXPECT_EQ(text.text(), answer);
      text.drop_calls();
    }
    take();
    EXPECT_EQ(given, said);
  }
}

// The answer begins after the thought, and a call in it is reported as a call.
TEST(ToolsTest, CallsAfterThoughtMatchDeclaredFunctions) {
  const Tools tools{.list = {{.name = "get", .parameters = Schema::parse(R"({"type": "object",
                             "properties": {"x": {"type": "integer"}}, "required": ["x"]})")}},
                    .use = ToolUse::free};
  GrammarAutomaton free = automaton_of(grammar_of(tools));
  const std::string get = R"({"name": "get", "arguments": {"x": 1}})";
  const std::string other_name = R"({"name": "put", "arguments": {"x": 1}})";
  const std::string other_arguments = R"({"name": "get", "arguments": {"x": "1"}})";
  for (const std::string thought :
       {"<think>\nHm, {x}. </think>\n\n", "Hm.</th></think> ", "<think></think>", "</think>\n"}) {
    for (const std::string& answer : {get, get + "\n" + get, std::string("It is {1}."),
                                      std::string("No </think>{"), std::string()}) {
      EXPECT_TRUE(accepts(free, thought + answer)) << thought + answer;
    }
    for (const std::string& answer : {other_name, other_arguments, get + " and more"}) {
      EXPECT_FALSE(accepts(free, thought + answer)) << thought + answer;
    }
  }
}

TEST(ToolsTest, CallsAreLinesIfTemplateHasNone) {
  Tools tools{.list = {{.name = "get", .parameters = Schema::parse(R"({"type": "object",
                       "properties": {"x": {"type": "integer"}}, "required": ["x"]})")},
                       {.name = "a.b", .parameters = Schema::parse(R"({"type": "object",
                       "additionalProperties": false})")}},
              .use = ToolUse::free};
  GrammarAutomaton free = automaton_of(grammar_of(tools));
  const std::string get = R"({"name": "get", "arguments": {"x": 1}})";
  const std::string other = R"({"name": "a.b", "arguments": {}})";
  for (const std::string& text :
       {get, other, get + "\n" + other, std::string("No { braces at first."), std::string()}) {
    EXPECT_TRUE(accepts(free, text)) << text;
  }
  EXPECT_FALSE(accepts(free, R"({"name": "put", "arguments": {}})"));
  EXPECT_FALSE(accepts(free, get + " and more"));
  tools.use = ToolUse::forced;
  tools.parallel = false;
  GrammarAutomaton forced = automaton_of(grammar_of(tools));
  EXPECT_TRUE(accepts(forced, get));
  EXPECT_FALSE(accepts(forced, get + "\n" + other));
  EXPECT_FALSE(accepts(forced, "No."));

  const CallForm& form = tools.form;
  const auto calls = form.parse(get + "\n" + other);
  ASSERT_TRUE(calls);
  ASSERT_EQ(calls->size(), 2u);
  EXPECT_EQ((*calls)[0].name, "get");
  EXPECT_EQ((*calls)[0].arguments, R"({"x": 1})");
  EXPECT_EQ(form.written(*calls), get + "\n" + other);
  for (const char* text : {"", "text", "{", R"({"name": "get"})", R"({"name": 1, "arguments": {}})",
                           R"({"name": "get", "arguments": "{}"})"}) {
    EXPECT_FALSE(form.parse(text)) << text;
  }
}

}  // namespace
}  // namespace edgedraft::client
