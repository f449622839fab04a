#include "shared/model/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/model/chat_rendering.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::Prompt;
using test::render;
using test::text_of;

const std::vector<ChatMessage> kTalk = {
    {"user", " What? "}, {"assistant", "That."}, {"user", "Why?"}};
const std::vector<ChatMessage> kTalkWithSystem = {{"system", "Be brief."}, {"user", "Hi"}};

constexpr char kDemo[] =
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '<|user|>\\n' + message['content'] + '<|end|>\\n' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ '<|assistant|>\\n' + message['content'] + '<|end|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

TEST(ChatTemplateTest, RendersDemoTemplate) {
  EXPECT_EQ(*render(kDemo, kTalk, Prompt::open),
            "<s><|user|>\n What? <|end|>\n<|assistant|>\nThat.<|end|>\n<|user|>\nWhy?<|end|>\n"
            "<|assistant|>\n");
  EXPECT_EQ(*render(kDemo, {{"user", "x"}}, Prompt::closed), "<s><|user|>\nx<|end|>\n");
}

constexpr char kChatMlWithSystem[] =
    "{% for message in messages %}\n"
    "    {%- if loop.first and messages[0].role != 'system' %}\n"
    "        {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content | trim ~ '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}\n";

TEST(ChatTemplateTest, RendersChatMl) {
  EXPECT_EQ(*render(kChatMlWithSystem, {{"user", " a "}}, Prompt::open),
            "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(*render(kChatMlWithSystem, kTalkWithSystem, Prompt::closed),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

constexpr char kCompactLlama2[] =
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}"
    "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}";

TEST(ChatTemplateTest, RendersLlama2) {
  EXPECT_EQ(*render(kCompactLlama2, kTalk, Prompt::open),
            "<s>[INST] What? [/INST] That. </s><s>[INST] Why? [/INST]");
  EXPECT_EQ(*render(kCompactLlama2, kTalkWithSystem, Prompt::open),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]");
}

TEST(ChatTemplateTest, ForwardsExceptionRaisedByTemplate) {
  const auto text = render(kCompactLlama2, {{"assistant", "I begin"}}, Prompt::open);
  EXPECT_TRUE(fails_with(text, Errc::unsupported, "Roles must alternate"));
}

TEST(ChatTemplateTest, EvaluatesExpressionsLikePython) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 1 + 2 * 3 }}", "7"},
      {"{{ (1 + 2) * 3 }}", "9"},
      {"{{ 7 % 3 - -1 }}", "2"},
      {"{{ -7 % 3 }}", "2"},
      {"{{ 'a' + 'b' ~ 1 }}", "ab1"},
      {"{{ 1 == true }}", "True"},
      {"{{ '1' == 1 }}", "False"},
      {"{{ none }}", "None"},
      {"{{ missing }}", ""},
      {"{{ missing is defined }}", "False"},
      {"{{ not missing is defined }}", "True"},
      {"{{ missing is not defined }}", "True"},
      {"{{ none is none }}", "True"},
      {"{{ 'x' is string }}", "True"},
      {"{{ '' or 'default' }}", "default"},
      {"{{ 'a' and 'b' }}", "b"},
      {"{{ not 0 }}", "True"},
      {"{{ 'yes' if 1 < 2 else 'no' }}", "yes"},
      {"{{ 'yes' if 2 <= 1 }}", ""},
      {"{{ 'b' in 'abc' }}", "True"},
      {"{{ 'x' not in ['a', 'b'] }}", "True"},
      {"{{ '  x '|trim|upper }}", "X"},
      {"{{ 'ABC'.lower().startswith('ab') }}", "True"},
      {"{{ '日本' | length }}", "2"},
      {"{{ [1, 2, 3][-1] }}", "3"},
      {"{{ [1, 2][5] is defined }}", "False"},
      {"{{ [1, 2, 3][1:] | length }}", "2"},
      {"{{ [1, 2, 3][:-1] | length }}", "2"},
      {"{{ \"it's\" }}", "it's"},
      {"{{ 'a\\tb\\\\' }}", "a\tb\\"},
      {"{{ '}}' }}", "}}"},
      {"{{ '{%' }}", "{%"},
      {"{{ tools is none }}", "True"},
      {"{{ [1, 2, 3][::-1] | join('-') }}", "3-2-1"},
      {"{{ range(10)[8:2:-3] | join(',') }}", "8,5"},
      {"{{ 'añb'[1] ~ 'añb'[-1] ~ 'añb'[::-1] ~ 'añb'[1:] }}", "ñbbñañb"},
      {"{{ ([1] + [2, 3]) | length }}", "3"},
      {"{{ {'b': 1, 'a': [true, none, 'x\\n\"é']} | tojson }}",
       "{\"b\": 1, \"a\": [true, null, \"x\\n\\\"é\"]}"},
      {"{{ {'a': [1, {}], 'b': []} | tojson(indent=2) }}",
       "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"},
      {"{{ {'a': 1}.a ~ {'a': 1}['a'] ~ {'a': 1}.get('b') ~ {'a': 1}.get('b', 2) }}", "11None2"},
      {"{{ 'a,b,,c'.split(',') | join('|') }}", "a|b||c"},
      {"{{ 'a,b,c'.split(',', 1)[-1] }}", "b,c"},
      {"{{ ' a \t b '.split() | join('|') }}", "a|b"},
      {"{{ 'x</think>y'.split('</think>')[-1] }}", "y"},
      {"{{ 'aXbX'.replace('X', '--') ~ ('aXbX' | replace('X', '')) }}", "a--b--ab"},
      {"{{ 'xxaxx'.strip('x') ~ '--a'.lstrip('-') ~ 'a\\n\\n'.rstrip('\\n') }}", "aaa"},
      {"{{ '\u3000 a\u00A0'.strip() }}", "a"},
      {"{{ 'hELLO wORLD' | capitalize }}{{ 'hELLO wORLD'.title() }}", "Hello worldHello World"},
      {"{{ \"it's grüße\" | title }} {{ \"it's grüße\".title() }}", "It's Grüße It'S Grüße"},
      {"{{ 'élan' | upper }}{{ 'ÉTÉ'.lower() }}{{ 'čau světe' | capitalize }}", "ÉLANétéČau světe"},
      {"{{ 'ǆ日ж' | title }}{{ 'ǆ日ж'.title() }}{{ 'ÉA_ÉA'.title() }}", "Ǆ日жǅ日ЖÉa_Éa"},
      {"{{ -5 | string | length }}{{ -5 is number }}{{ -[1, 2][1] }}", "2True-2"},
      {"{{ missing | default('d') }}{{ '' | default('d') }}{{ '' | default('d', true) }}", "dd"},
      {"{{ [3, 4] | first }}{{ [3, 4] | last }}{{ 'xyz' | last }}", "34z"},
      {"{{ '12' | int + 1 }}", "13"},
      {"{{ [1, 2, 3, 4] | select('odd') | list | length }}", "2"},
      {"{{ ['a', 'b'] | reject('equalto', 'a') | join }}", "b"},
      {"{{ [{'r': 1}, {'r': 2}] | selectattr('r', 'equalto', 2) | map(attribute='r') | first }}",
       "2"},
      {"{{ 'x' is iterable }}{{ [] is sequence }}{{ {} is mapping }}{{ 1 is number }}",
       "TrueTrueTrueTrue"},
      {"{{ false is false }}{{ 0 is false }}{{ true is true }}", "TrueFalseTrue"},
      {"{{ 1 is in [1, 2] }}{{ 'a' is not equalto 'b' }}", "TrueTrue"},
      {"{{ 1 is equalto [1, 2][0] }}{{ 'b' is in {'x': ['a', 'b']}.x }}", "TrueTrue"},
      {"{{ 1 is ne {'a': {'b': 1}}.a['b'] or 'no' }}{{ 'a' is eq 'abc'[:1] and 1 }}", "no1"},
      {"{{ 'a' is eq ' a '.strip() }}{{ 'a' is eq 'a' | upper }}", "TrueTRUE"},
      {"{{ [{'f': {'n': 'x'}}, {'f': {'n': 'y'}}] | map(attribute='f.n') | join }}", "xy"},
      {"{{ [{'p': ['a', 'b']}] | map(attribute='p.1') | first }}", "b"},
      {"{{ [['a', 'b'], ['c']] | map(attribute='00') | join }}", "ac"},
      {"{{ [['a']] | map(attribute='1') | first is defined }}", "False"},
      {"{{ [['a']] | map(attribute='99999999999999999999') | first is defined }}", "False"},
      {"{{ [{'0': 'a'}] | map(attribute='0') | first is defined }}", "False"},
      {"{{ [{'a': 1}] | map(attribute='a.b') | first is defined }}", "False"},
      {"{{ [{'a': {'': 1}}] | map(attribute='a.') | first }}", "1"},
      {"{{ [{'f': {'n': 1}}, {'f': {'n': 2}}] | selectattr('f.n', 'eq', 2) | map(attribute='f.n')"
       " | first }}",
       "2"},
      {"{{ [{'f': {'n': 1}}, {'f': {}}] | rejectattr('f.n') | list | length }}", "1"},
      {"{{ true is boolean and not 1 is boolean }}", "True"},
      {"{{ [1, 'a', [none]] == [1, 'a', [none]] }}", "True"},
      {"{{ [1, 2] == [1] or [1, 2] == [1, 3] }}", "False"},
      {"{{ {'a': 1, 'b': [2]} == {'b': [2], 'a': 1} }}", "True"},
      {"{{ {'a': 1} == {'a': 2} or {'a': 1} == {'b': 1} or {'a': 1} == [1] }}", "False"},
      {"{{ {'a': 1} != {'a': 1} }}", "False"},
      {"{{ [2] in [1, [2]] }}", "True"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(text_of(source), expected) << source;
}

// With trim_blocks and lstrip_blocks, as Hugging Face configures Jinja.
TEST(ChatTemplateTest, TreatsWhiteSpaceLikeJinja) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{% if true %}\nb\n{% endif %}\nc", "a\nb\nc"},
      {"a\n   {% if true %}  b{% endif %}", "a\n  b"},
      {"a {% if true %}b{% endif %}", "a b"},
      {"a \n {{- 'b' }}", "ab"},
      {"{{ 'a' -}} \n b", "ab"},
      {"a {%- if true -%} b {%- endif -%} c", "abc"},
      {"{{ 'a' }}\nb", "a\nb"},
      {"  {# note #}\nb", "b"},
      {"a {#- note -#} b", "ab"},
      {"  {%+ if true %}b{% endif %}", "  b"},
      {"{% if true +%}\nb{% endif %}", "\nb"},
      {"a\r\nb\r\n", "a\nb"},
      {"a\n\n", "a\n"},
      {"{% set x = 1 %}\n\n{{ x }}", "\n1"},
      {"{", "{"},
      {"{ {", "{ {"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(text_of(source), expected) << source;
}

TEST(ChatTemplateTest, RunsStatementsLikeJinja) {
  const std::pair<const char*, const char*> cases[] = {
      // Variables end with their loop, but not with a condition.
      {"{% set x = 'out' %}{% for i in [1, 2] %}{{ x }}{% set x = 'in' %}{{ x }}{% endfor %}"
       "{{ x }}",
       "outinoutinout"},
      {"{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "1"},
      {"{% set ns = namespace(n=0, last='') %}{% for i in [1, 2, 3] %}"
       "{% set ns.n = ns.n + i %}{% set ns.last = i %}{% endfor %}{{ ns.n }}{{ ns.last }}",
       "63"},
      {"{% for i in ['a','b','c'] %}{{ loop.index0 }}{{ loop.index }}{{ i }}"
       "{{ ',' if not loop.last }}{% endfor %}",
       "01a,12b,23c"},
      {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "a=1;b=2;"},
      {"{% for i in range(6) if i % 2 == 1 %}{{ loop.index }}:{{ i }} {% endfor %}",
       "1:1 2:3 3:5 "},
      {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
      {"{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
       "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
       "023"},
      {"{% set x %}a{{ 1 + 1 }}{% endset %}[{{ x }}]", "[a2]"},
      {"{% generation %}x{% endgeneration %}", "x"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(text_of(source), expected) << source;
}

// Message text stays untrusted through every filter; the template's own text is trusted.
TEST(ChatTemplateTest, MarksMessageTextAsForeign) {
  const std::pair<const char*, const char*> cases[] = {
      {"<s>{{ messages[0].content }}</s>", "<s>[ a,b ]</s>"},
      {"{{ '<' + messages[0]['content'] | trim + '>' }}", "<[a,b]>"},
      {"{{ messages[0].role ~ messages[0].content.strip() }}", "user[a,b]"},
      {"{{ messages[0].content | upper }}", "[ A,B ]"},
      {"{{ ('ɐ' + messages[0].content + 'ı') | upper }}", "Ɐ[ A,B ]I"},
      {"{{ messages[0].content.split(',')[1] }}", "[b ]"},
      {"{{ messages[0].content.strip().split(',') | join('<sep>') }}", "[a]<sep>[b]"},
      {"{{ messages[0].content.replace(',', '<c>') }}", "[ a]<c>[b ]"},
      {"{{ '<a>x'.replace('x', messages[0].content) }}", "<a>[ a,b ]"},
      {"{{ messages[0].content | tojson }}", "[\" a,b \"]"},
      {"{{ {'k': messages[0].content} | tojson }}", "{\"k\": [\" a,b \"]}"},
      {"{{ messages[0].content[1:3] }}", "[a,]"},
      {"{% set x %}<{{ messages[0].content }}>{% endset %}{{ x }}", "<[ a,b ]>"},
      {"{% set ns = namespace(x=messages[0].content) %}{{ ns.x }}", "[ a,b ]"},
      {"{% for m in messages %}{{ m.content }}{% endfor %}", "[ a,b ]"},
      {"{{ messages[0].content | length }}", "5"},
      {"{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(messages[0].content) }}", "<[ a,b ]>"},
      {"{% macro f() %}<{{ caller() }}>{% endmacro %}"
       "{% call f() %}{{ messages[0].content }}{% endcall %}",
       "<[ a,b ]>"},
      {"{% filter upper %}<a{{ messages[0].content }}>{% endfilter %}", "<A[ A,B ]>"},
      {"{{ {'<k>': messages[0].content} }}", "{'<k>': [' a,b ']}"},
      {"{{ '<%s>' % messages[0].content }}", "<[ a,b ]>"},
      {"{{ '<{}>{:>2}'.format(messages[0].content, '<') }}", "<[ a,b ]> <"},
      {"{{ (messages[0].content ~ '\n<') | indent(1) }}", "[ a,b ]\n <"},
      {"{{ ('<' + messages[0].content) | escape }}", "&lt;[ a,b ]"},
      {"{{ messages[0].content.partition(',') | join('|') }}", "[ a]|[,]|[b ]"},
      {"{{ messages[0].content | list | join('-') }}", "[ ]-[a]-[,]-[b]-[ ]"},
      {"{{ messages[0].content * 2 ~ messages[0].content.zfill(6) }}", "[ a,b  a,b ]0[ a,b ]"},
      {"{{ '[\"<|x|>\"]' | from_json | first }}", "[<|x|>]"},
      {"{% for k in {messages[0].content: 1} %}{{ k }}{% endfor %}", "[ a,b ]"},
      {"{% for k, v in {messages[0].content: '<v>'}.items() %}{{ k ~ v }}{% endfor %}",
       "[ a,b ]<v>"},
      {"{{ {'<a>': 1, '<' + messages[0].content: 2}.keys() | join(';') }}", "<a>;<[ a,b ]"},
      {"{{ {'<a>': 1, messages[0].content: '<v>'} | tojson }}",
       "{\"<a>\": 1, [\" a,b \"]: \"<v>\"}"},
  };
  for (const auto& [source, expected] : cases) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_TRUE(parsed) << source;
    const ChatMessage message{.role = "user", .content = " a,b "};
    const auto text = parsed->render({.messages = std::span(&message, 1)});
    ASSERT_TRUE(text) << source << ": " << text.error().message;
    std::string shown = text->text();
    for (auto span = text->spans().rbegin(); span != text->spans().rend(); ++span) {
      shown.insert(span->end, "]").insert(span->begin, "[");
    }
    EXPECT_EQ(shown, expected) << source;
  }
}

// Function schemas and their names are untrusted.
TEST(ChatTemplateTest, MarksToolsAndCallsAsForeign) {
  const ChatTemplate chat =
      ChatTemplate::parse(
          "<tools>{{ tools | tojson }}{% for name, value in tools[0].items() %}{{ name }}{% endfor "
          "%}"
          "{% for name in tools[0] %}{{ name }}{% endfor %}{{ tools[0].keys() | join }}</tools>"
          "{% for m in messages %}{% for call in m.tool_calls %}{{ call.function | tojson }}"
          "{{ call.id }}{% endfor %}{{ m.tool_call_id }}{{ m.name }}{% endfor %}")
          .value();
  const std::vector<ChatMessage> messages{
      {.role = "assistant",
       .content = "",
       .calls = {{.name = "<|f|>", .arguments = R"({"<|k|>": 1.25})", .id = "<|i|>"}}},
      {.role = "tool", .content = "", .call_id = "<|i|>", .name = "<|f|>"}};
  for (const CallArguments as : {CallArguments::text, CallArguments::object}) {
    const MarkedText text = chat.render({.messages = messages,
                                         .tools = R"([{"<|x|>": ["<|y|>", null, -2, 1e-7]}])",
                                         .call_arguments = as})
                                .value();
    EXPECT_TRUE(contains(text.text(), R"([{"<|x|>": ["<|y|>", null, -2, 1e-07]}])"));
    std::size_t marks = 0;
    for (std::size_t at = 0; (at = text.text().find("<|", at)) != std::string::npos; ++at) {
      EXPECT_TRUE(text.is_foreign(at, at + 1)) << text.text().substr(at);
      ++marks;
    }
    EXPECT_EQ(marks, 10u);
  }
}

TEST(ChatTemplateTest, RefusesInvalidTools) {
  const ChatTemplate chat = ChatTemplate::parse("{{ tools | tojson }}").value();
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  for (const std::string& tools : {std::string("[1"), std::string("x"), deep}) {
    EXPECT_TRUE(fails_with(chat.render({.messages = {}, .tools = tools}), Errc::usage)) << tools;
  }
}

TEST(ChatTemplateTest, MarksUnknownRoleAsForeign) {
  const auto parsed = ChatTemplate::parse("{{ '<|' + messages[0].role + '|>' }}");
  for (const auto& [role, foreign] : {std::pair("assistant", false), std::pair("end", true)}) {
    const ChatMessage message{.role = role, .content = ""};
    EXPECT_EQ(parsed->render({.messages = std::span(&message, 1)})->has_foreign(), foreign) << role;
  }
}

class UnsupportedTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(UnsupportedTest, ErrorNamesConstructLineAndRemedy) {
  const auto [source, named] = GetParam();
  const Error error = error_of(std::string("line one\n") + source);
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_TRUE(contains(error.message, named));
  EXPECT_TRUE(contains(error.message, "line 2"));
  EXPECT_TRUE(contains(error.message, "--raw"));
  EXPECT_TRUE(contains(error.message, "--chat-template FILE"));
}

INSTANTIATE_TEST_SUITE_P(
    Constructs, UnsupportedTest,
    ::testing::Values(std::pair("{% include 'x' %}", "{% include %}"),
                      std::pair("{{ strftime_now() }}", "strftime_now()"),
                      std::pair("{{ strftime_now('%500Y') }}", "strftime_now()"),
                      std::pair("{{ messages | wordwrap }}", "'wordwrap'"),
                      std::pair("{{ 'x' is divisible }}", "'divisible'"),
                      std::pair("{{ 'a'.encode('b') }}", ".encode()"),
                      std::pair("{{ x[1, 2] }}", "','"), std::pair("{{ '\\N{DASH}' }}", "\\N"),
                      std::pair("{{ f(*x) }}", "'*'"),
                      std::pair("{% for a, b, c in messages %}{% endfor %}", "2 values to 3 names"),
                      std::pair("{% for a in 5 %}{% endfor %}", "cannot loop over a number"),
                      std::pair("{% set x.y = 1 %}", "a member of an undefined value"),
                      std::pair("{% break %}", "{% break %}"),
                      std::pair("{{ [1][::0] }}", "the step of a slice is zero"),
                      std::pair("{{ range(1, 2, 0) }}", "range()"),
                      std::pair("{{ f(a=1, 2) }}", "a positional argument after a named one"),
                      std::pair("{% if true %}", "without its end"),
                      std::pair("{% endif %}", "{% endif %}"), std::pair("{{ 'open }}", "string"),
                      std::pair("{{ 1", "unterminated"), std::pair("{# open", "comment"),
                      std::pair("{{ range }}", "a function"),
                      std::pair("{% set loop = {} %}{{ loop.cycle(1) }}", ".cycle()"),
                      std::pair("{{ missing.key }}", "'key' of an undefined value ('missing')"),
                      std::pair("{{ [{}] | map(attribute='f.n') }}", "'n' of an undefined value"),
                      std::pair("{{ [{}] | selectattr('f.0') }}", "'0' of an undefined value"),
                      std::pair("{{ 'a' + 1 }}", "a string + a number"),
                      std::pair("{{ 1 % 0 }}", "division by zero"),
                      std::pair("{{ messages[0].content.strip(1, 2) }}", "that many arguments")));

TEST(ChatTemplateTest, LimitsSteps) {
  const std::string ten = "[1,2,3,4,5,6,7,8,9,0]";
  std::string source = "x";
  for (int i = 0; i < 9; ++i) {
    const std::string name = "v" + std::to_string(i);
    source = "{% for " + name + " in " + ten + " %}" + source + "{% endfor %}";
  }
  EXPECT_EQ(error_of(source).code, Errc::usage);
  EXPECT_TRUE(contains(error_of(source).message, "steps"));
  // Two equal lists that share no elements.
  std::string alike = "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(40) %}";
  alike += "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  EXPECT_TRUE(contains(error_of(alike + "{{ ns.x == ns.y }}").message, "steps"));
  // Looking up each name scans those before it.
  std::string names = "a";
  std::string values = "0";
  std::string named = "a=0";
  for (int i = 0; i < 5000; ++i) {
    names += ",n" + std::to_string(i);
    values += ",0";
    named += ",n" + std::to_string(i) + "=0";
  }
  for (const std::string& wide :
       {"{% for " + names + " in [[" + values + "]] %}{% endfor %}",
        "{% set x = namespace(" + named + ") %}", "{% set x = dict(" + named + ") %}"}) {
    EXPECT_TRUE(contains(error_of(wide).message, "steps"));
  }
}

// Templates name functions that they never call.
TEST(ChatTemplateTest, IgnoresUnknownFunctionsInUnreachedBranches) {
  EXPECT_EQ(text_of("{% if missing is defined %}{{ missing('%d') }}{% else %}x{% endif %}"
                    "{{ 'y' if true else messages | wordwrap(3) }}"),
            "xy");
}

TEST(ChatTemplateTest, ProvidesCurrentDate) {
  const auto parsed = ChatTemplate::parse(
      "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}");
  const auto text =
      parsed->render({.messages = {}, .now = std::chrono::sys_days(2031y / 3 / 5) + 11h + 30min});
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->text(), "05 Mar 2031");
  EXPECT_FALSE(text->has_foreign());
  // Without a time of its own, it uses the clock.
  const std::string year = parsed->render({.messages = {}})->text().substr(7);
  EXPECT_GE(std::stoi(year), 2025);
}

TEST(ChatTemplateTest, PassesReasoningOfEarlierAnswers) {
  const auto parsed = ChatTemplate::parse(
      "{% for m in messages %}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
      "{% endif %}{{ m.content }};{% endfor %}");
  const std::vector<ChatMessage> messages{
      {.role = "assistant", .content = "4", .reasoning = "2 + 2"},
      {.role = "assistant", .content = "5"}};
  const auto text = parsed->render({.messages = messages});
  EXPECT_EQ(text->text(), "<think>2 + 2</think>4;5;");
  EXPECT_TRUE(text->is_foreign(7, 12));
  EXPECT_FALSE(text->is_foreign(0, 7));
}

TEST(ChatTemplateTest, RequestVariablesAreForeignAndReplaceNoBuiltins) {
  const auto parsed = ChatTemplate::parse(
      "{% if enable_thinking is defined and enable_thinking is false %}off{% endif %}{{ effort }}");
  const auto render = [&](std::string_view variables) {
    return parsed->render({.messages = {}, .variables = variables});
  };
  EXPECT_EQ(render("")->text(), "");
  const auto text = render(R"({"enable_thinking": false, "effort": "<|high|>"})");
  EXPECT_EQ(text->text(), "off<|high|>");
  EXPECT_FALSE(text->is_foreign(0, 3));
  EXPECT_TRUE(text->is_foreign(3, 11));
  EXPECT_EQ(render("[1]").error().code, Errc::usage);
  EXPECT_TRUE(contains(render(R"({"messages": "x"})").error().message, "'messages'"));
}

TEST(ChatTemplateTest, LimitsGrowthOfValues) {
  const char* const sources[] = {
      "{% set ns = namespace(x='a,') %}{% for i in range(60) %}"
      "{% set ns.x = ns.x.replace(',', ns.x + ',,') %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}"
      "{% set ns.x = ns.x.split('a') | join(ns.x) %}{% endfor %}",
      "{{ range(100000000) }}",
      "{% set ns = namespace(x='.') %}{% for i in range(22) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}{{ [] | map(attribute=ns.x) | join }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(9000) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x | tojson }}",
  };
  for (const char* source : sources) {
    const auto text = render(source, {}, Prompt::closed);
    EXPECT_FALSE(text) << source;
  }
}

// Each use reads or copies the whole string, so it has to cost more than one step.
TEST(ChatTemplateTest, ChargesStepsForLongStrings) {
  const std::string long_text =
      "{% set ns = namespace(z='0') %}{% for i in range(16) %}{% set ns.z = ns.z + ns.z %}"
      "{% endfor %}{% set z = ns.z %}{% set d = {z: 1} %}";
  const std::string name(65536, 'n');
  const std::string uses[] = {"{{ d[z] }}", "{{ z | int }}", "{{ [] | select(z) | list }}",
                              "{% set " + name + " = i %}", "{{ " + name + " }}"};
  for (const std::string& use : uses) {
    EXPECT_EQ(error_of(long_text + "{% for i in range(2000) %}" + use + "{% endfor %}").code,
              Errc::usage)
        << use.substr(0, 40);
  }
  EXPECT_EQ(error_of(long_text +
                     "{% set z = z ~ 'n' %}{{ range(2000) | map(attribute=z) | list | length }}")
                .code,
            Errc::usage);
}

// A search may compare every pair of positions, which would exceed the test's timeout.
TEST(ChatTemplateTest, LimitsSearchesBeforeTheyStart) {
  const std::string texts =
      "{% set ns = namespace(x='a') %}{% for i in range(22) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}{% set whole = ns.x + ns.x %}{% set part = ns.x + 'b' %}";
  EXPECT_EQ(text_of(texts + "{{ whole | length }}"), "8388608");
  for (const char* search : {"{{ whole.replace(part, '') }}", "{{ whole | replace(part, '') }}",
                             "{{ whole.split(part) | length }}", "{{ part in whole }}"}) {
    EXPECT_EQ(error_of(texts + search).code, Errc::usage) << search;
  }
}

TEST(ChatTemplateTest, LimitsOutput) {
  std::string source = "{% set a = 'xxxxxxxx' %}";
  for (int i = 0; i < 40; ++i) source += "{% set a = a + a %}";
  EXPECT_EQ(error_of(source + "{{ a }}").code, Errc::usage);
}

TEST(ChatTemplateTest, RefusesNestingThatWouldOverflowTheStack) {
  const std::size_t deep = 100000;
  const std::pair<std::string, std::string> forms[] = {
      {"(", ")"},  {"[", "]"},     {"not ", ""}, {"-", ""},     {"'a'+", "'a'"}, {"x.", "x"},
      {"x[", "]"}, {"{'a':", "}"}, {"f(", ")"},  {"x|f(", ")"}, {"x is eq ", ""}};
  for (const auto& [open, close] : forms) {
    std::string source = "{{ ";
    for (std::size_t i = 0; i < deep / open.size(); ++i) source += open;
    source += "x";
    for (std::size_t i = 0; i < deep / open.size() && !close.empty(); ++i) source += close;
    EXPECT_EQ(error_of(source + " }}").code, Errc::unsupported) << open;
  }
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if true %}";
  EXPECT_EQ(error_of(blocks).code, Errc::unsupported);
}

TEST(ChatTemplateTest, RefusesTooLongSources) {
  EXPECT_FALSE(ChatTemplate::parse(std::string(kTemplateBytesMax + 1, 'x')));
  EXPECT_TRUE(ChatTemplate::parse(std::string(kTemplateBytesMax, 'x')));
}

TEST(ChatTemplateTest, SurvivesEveryTruncation) {
  for (const std::string whole : {kDemo, kChatMlWithSystem, kCompactLlama2}) {
    for (std::size_t count = 0; count < whole.size(); ++count) {
      const auto text = render(whole.substr(0, count), kTalk, Prompt::open);
      if (!text) {
        EXPECT_EQ(text.error().code, Errc::unsupported) << count;
      }
    }
  }
}

// User text is data: it is never run as a template.
TEST(ChatTemplateTest, MessagesAreNotTemplates) {
  EXPECT_EQ(
      *render("{{ messages[0].content }}", {{"user", "{{ bos_token }}{% if %}"}}, Prompt::closed),
      "{{ bos_token }}{% if %}");
}

}  // namespace
}  // namespace edgedraft
