#include <gtest/gtest.h>

#include <vector>

#include "shared/model/chat_template.h"
#include "tests/model/chat_rendering.h"
#include "tests/support/expect.h"

// Prompt formats of the common model families, written with the constructs of their published
// templates.
namespace edgedraft {
namespace {

using test::Prompt;
using test::render;
using Talk = std::vector<ChatMessage>;

const Talk kUser = {{"user", "Hi there"}};
const Talk kSystem = {{"system", "Be brief."}, {"user", "Hi"}};
const Talk kTurns = {{"user", "Hi"}, {"assistant", "Hello!"}, {"user", "Bye"}};
const Talk kSystemTurns = {
    {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello!"}, {"user", "Bye"}};

std::string rendered(const char* source, const Talk& talk, Prompt prompt = Prompt::open) {
  const auto text = render(source, talk, prompt);
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : "";
}

void expect_refusal(const char* source, const Talk& talk, const std::string& reason) {
  const auto text = render(source, talk, Prompt::open);
  EXPECT_TRUE(fails_with(text, Errc::unsupported, reason)) << *text;
}

constexpr char kLlama2[] = R"({% if messages[0]['role'] == 'system' -%}
{% set turns = messages[1:] %}{% set system = messages[0]['content'] %}
{%- elif USE_DEFAULT_PROMPT == true and not '<<SYS>>' in messages[0]['content'] -%}
{% set turns = messages %}{% set system = 'none of ours' %}
{%- else -%}
{% set turns = messages %}{% set system = false %}
{%- endif -%}
{%- for message in turns -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('user and assistant must take turns') }}
{%- endif -%}
{%- if loop.index0 == 0 and system != false -%}
{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + message['content'] %}
{%- else -%}
{% set content = message['content'] %}
{%- endif -%}
{%- if message['role'] == 'user' -%}
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- elif message['role'] == 'assistant' -%}
{{ ' ' + content.strip() + ' ' + eos_token }}
{%- endif -%}
{%- endfor -%})";

TEST(ChatFamilyTest, Llama2) {
  EXPECT_EQ(rendered(kLlama2, kUser), "<s>[INST] Hi there [/INST]");
  EXPECT_EQ(rendered(kLlama2, kSystem), "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]");
  EXPECT_EQ(
      rendered(kLlama2, kSystemTurns),
      "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Bye [/INST]");
  expect_refusal(kLlama2, {{"assistant", "Hello!"}}, "must take turns");
  expect_refusal(kLlama2, {{"user", "a"}, {"user", "b"}}, "must take turns");
}

// Differs from the published one in how it sets the content: with bos_token and another loop
// variable.
constexpr char kLlama3[] =
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
    "{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";

TEST(ChatFamilyTest, Llama3) {
  EXPECT_EQ(rendered(kLlama3, {{"user", " Hi "}}),
            "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(rendered(kLlama3, kSystemTurns, Prompt::closed),
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>");
}

// From 3.1 on: with dates, and tools, which are absent here.
constexpr char kLlama31[] = R"({{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") }}
{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one tool at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- for name, value in tool_call.arguments | items %}
            {{- name + '="' + value + '"' }}
        {%- endfor %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})";

TEST(ChatFamilyTest, Llama31) {
  EXPECT_EQ(rendered(kLlama31, kSystem),
            "<s><|start_header_id|>system<|end_header_id|>\n\nToday: 26 Jul 2024\n\nBe brief."
            "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(rendered(kLlama31, kTurns, Prompt::closed),
            "<s><|start_header_id|>system<|end_header_id|>\n\nToday: 26 Jul 2024\n\n<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>");
}

constexpr char kChatMl[] =
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST(ChatFamilyTest, ChatMl) {
  EXPECT_EQ(rendered(kChatMl, kUser),
            "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(rendered(kChatMl, kSystemTurns, Prompt::closed),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n");
}

// Qwen 2.5 and 3: tools are absent, thoughts are removed from earlier answers.
constexpr char kQwen[] = R"({%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- for tool in tools %}
        {{- "\n" }}{{- tool | tojson }}
    {%- endfor %}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are kind.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and reasoning %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {{- tool_call.arguments | tojson }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %})";

TEST(ChatFamilyTest, Qwen) {
  EXPECT_EQ(rendered(kQwen, kUser),
            "<|im_start|>system\nYou are kind.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(rendered(kQwen, kSystemTurns, Prompt::closed),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n");
  EXPECT_EQ(rendered(kQwen,
                     {{"system", "s"},
                      {"user", "a"},
                      {"assistant", "<think>\nhm\n</think>\n\nb"},
                      {"tool", "1"},
                      {"tool", "2"},
                      {"user", "c"}},
                     Prompt::closed),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n"
            "</tool_response><|im_end|>\n<|im_start|>user\nc<|im_end|>\n");
}

// Zephyr, TinyLlama.
constexpr char kZephyr[] =
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token "
    "}}\n"
    "{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
    "{% endfor %}";

TEST(ChatFamilyTest, Zephyr) {
  EXPECT_EQ(rendered(kZephyr, kUser), "<|user|>\nHi there</s>\n<|assistant|>\n");
  EXPECT_EQ(rendered(kZephyr, kSystemTurns, Prompt::closed),
            "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello!</s>\n"
            "<|user|>\nBye</s>\n");
}

// Instruct 0.1: no system message.
constexpr char kMistral[] =
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('user and assistant must take turns') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}"
    "{% else %}{{ raise_exception('only user and assistant are known') }}{% endif %}{% endfor %}";

TEST(ChatFamilyTest, Mistral) {
  EXPECT_EQ(rendered(kMistral, kUser), "<s>[INST] Hi there [/INST]");
  EXPECT_EQ(rendered(kMistral, kTurns), "<s>[INST] Hi [/INST]Hello!</s> [INST] Bye [/INST]");
  expect_refusal(kMistral, kSystem, "must take turns");
  expect_refusal(kMistral, {{"user", "a"}, {"system", "b"}}, "only user and assistant");
  expect_refusal(kMistral, {{"user", "a"}, {"user", "b"}}, "must take turns");
}

// From 0.3 on: the system message goes into the last user turn.
constexpr char kMistral3[] = R"({%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("user and assistant must take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- for key, val in tool.items() if key != "return" %}
                    {{- '"' + key + '": ' + val|tojson }}
                {%- endfor %}
            {%- endfor %}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("only user and assistant are known") }}
    {%- endif %}
{%- endfor %})";

TEST(ChatFamilyTest, Mistral3) {
  EXPECT_EQ(rendered(kMistral3, kUser), "<s>[INST] Hi there[/INST]");
  EXPECT_EQ(rendered(kMistral3, kSystem), "<s>[INST] Be brief.\n\nHi[/INST]");
  EXPECT_EQ(rendered(kMistral3, kSystemTurns),
            "<s>[INST] Hi[/INST] Hello!</s>[INST] Be brief.\n\nBye[/INST]");
  expect_refusal(kMistral3, {{"assistant", "a"}}, "must take turns");
  expect_refusal(kMistral3, {{"user", "a"}, {"system", "b"}}, "only user and assistant");
  // Only before the last user message.
  const auto with_tools =
      ChatTemplate::parse(kMistral3).value().render({.messages = kTurns,
                                                     .bos_token = "<s>",
                                                     .eos_token = "</s>",
                                                     .add_generation_prompt = true,
                                                     .tools = R"([{"name": "clock"}])"});
  ASSERT_TRUE(with_tools) << with_tools.error().message;
  EXPECT_EQ(
      with_tools->text(),
      "<s>[INST] Hi[/INST] Hello!</s>[AVAILABLE_TOOLS] [\"name\": \"clock\"[INST] Bye[/INST]");
}

}  // namespace
}  // namespace edgedraft
