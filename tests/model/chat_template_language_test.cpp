#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "shared/model/chat_template.h"
#include "tests/model/chat_rendering.h"
#include "tests/support/expect.h"

// Jinja's language. The expected texts are those of jinja2 3.1 in Hugging Face's sandbox.
namespace edgedraft {
namespace {

using test::error_of;
using test::text_of;

void expect_texts(std::initializer_list<std::pair<const char*, const char*>> cases) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(text_of(source), expected) << source;
}

TEST(ChatLanguageTest, RunsMacrosLikeJinja) {
  expect_texts({
      {"{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, 3) "
       "}}{{ f(1, c='y') }}{{ f(c=1, a=2) }}{{ f() }}",
       "1-2-x;1-3-x;1-2-y;2-2-1;-2-x;"},
      {"{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(3) }}", "3"},
      {"{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(none) }}", "FalseTrue"},
      {"{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, x=4) }}",
       "1(2, 3){'x': 4}"},
      {"{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
       "54321"},
      {"{% macro f(x) %}  {{ x }}  {% endmacro %}[{{ f('a') | trim }}][{{ f('b').strip() }}][{{ "
       "f('c') | length }}]",
       "[a][b][5]"},
      {"{% macro g(x) %}<{{ x }}>{% endmacro %}{% macro f(h, x) %}{{ h(x) }}{% endmacro %}{{ f(g, "
       "3) }}",
       "<3>"},
      {"{% macro f() %}a{% endmacro %}{% set s = f() %}{{ s + 'b' }}{{ s is string }}{{ f is "
       "callable }}",
       "abTrueTrue"},
      {"{% macro f(d, n=0) %}{% for k, v in d.items() %}{{ '-' * n }}{{ k }}{% if v is mapping "
       "%}({{ f(v, n + 1) }}){% else %}={{ v }};{% endif %}{% endfor %}{% endmacro %}{{ f({'a': "
       "{'b': 1, 'c': {'d': 2}}, 'e': 3}) }}",
       "a(-b=1;-c(--d=2;))e=3;"},
  });
}

TEST(ChatLanguageTest, MacrosReadVariablesOfTheirDefinition) {
  expect_texts({
      {"{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}{% for x in [7] "
       "%}{{ f() }}{{ x }}{% endfor %}",
       "227"},
      {"{% macro f() %}{{ loop is defined }}{% endmacro %}{% for i in [1] %}{{ f() }}{% endfor %}",
       "False"},
      {"{% for y in [7] %}{% macro f() %}{{ y }}{% endmacro %}{{ f() }}{% endfor %}{{ f is defined "
       "}}",
       "7False"},
      {"{% macro f() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ f() }}{{ q is defined }}", "1False"},
      {"{% macro f() %}{% macro g() %}i{% endmacro %}{{ g() }}{% endmacro %}{{ f() }}{{ g is "
       "defined }}",
       "iFalse"},
      {"{% set ns = namespace(a=1) %}{% macro f() %}{% set ns.a = ns.a + 1 %}{% endmacro %}{{ f() "
       "}}{{ f() }}{{ ns.a }}",
       "3"},
      {"{% set r = [] %}{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{% set g = f %}{{ "
       "g() }}{% endfor %}",
       "12"},
  });
}

TEST(ChatLanguageTest, PassesBodiesOfCallBlocksToMacros) {
  expect_texts({
      {"{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}body{% endcall %}", "[body]"},
      {"{% macro f(a) %}[{{ caller(a, y=1) }}]{% endmacro %}{% call(x, y) f(5) %}<{{ x }}{{ y "
       "}}>{% endcall %}",
       "[<51>]"},
      {"{% macro f() %}[{{ caller() }}]{% endmacro %}{% set x = 1 %}{% for i in [8] %}{% call f() "
       "%}{{ x }}{{ i }}{% endcall %}{% endfor %}",
       "[18]"},
      {"{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", "False"},
  });
}

TEST(ChatLanguageTest, RunsBlocksInScopesLikeJinja) {
  expect_texts({
      {"{% filter upper %}a{{ 'b' }}{% endfilter %}", "AB"},
      {"{% filter replace('a', 'b') | upper %}aa{% endfilter %}", "BB"},
      {"{% set x | replace('a', 'z') | upper %}abc{% endset %}{{ x }}", "ZBC"},
      {"{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}", "1False"},
      {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
      {"{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}", "21"},
      {"{% generation %}{% set x = 5 %}{{ x }}{% endgeneration %}{{ x is defined }}", "5False"},
      {"{% raw %}{{ x }}{% if %}{% endraw %}!", "{{ x }}{% if %}!"},
      {"a {%- raw -%}  {{ x }}  {%- endraw -%} b", "a{{ x }}b"},
      {"{% set a, b = 1, 2 %}{% set a, b = b, a %}{{ a }}{{ b }}", "21"},
      {"{% set (a, b) = [1, 2] %}{{ a }}{{ b }}", "12"},
      {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
      {"{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "123"},
      {"{% for c in 'añb' %}{{ c }}.{% endfor %}", "a.ñ.b."},
      {"{% for a, b in ['xy', 'zw'] %}{{ b }}{{ a }}{% endfor %}", "yxwz"},
      {"{% for x in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}{{ loop.previtem }}{{ "
       "loop.nextitem }}{% endfor %}",
       "a32b213a12"},
      {"{% for x in [] %}{% else %}{% set y = 1 %}{{ y }}{% endfor %}{{ y is defined }}", "1False"},
  });
}

TEST(ChatLanguageTest, ComputesLikePython) {
  expect_texts({
      {"{{ 1.5 }} {{ 1e3 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1e-7 }} {{ 0.1 + "
       "0.2 }} {{ 1_000 }} {{ -0.0 }}",
       "1.5 1000.0 1e+16 1000000000000000.0 0.0001 1e-05 1e-07 0.30000000000000004 1000 -0.0"},
      {"{{ 7 / 2 }} {{ 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7.5 // 2 "
       "}} {{ -7.5 % 2 }} {{ 7.5 % -2 }}",
       "3.5 2.0 3 -4 -2 2 3.0 0.5 -0.5"},
      {"{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** 0.5 }} {{ +5 }} {{ - "
       "-5 }} {{ 2 * 3 % 4 }}",
       "1024 0.5 64 4 1.4142135623730951 5 5 2"},
      {"{{ true + 1 }} {{ 1.0 == 1 }} {{ 1 < 1.5 }} {{ true < 2 }} {{ 1 ~ 2 * 3 }}",
       "2 True True True 16"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 == 1 }} {{ 1 in [1] in [[1]] }} {{ 1 in [1] not "
       "in [2] }}",
       "True False True True True"},
      {"{{ 'a' < 'b' }} {{ 'a' <= 'a' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) >= (1, 2) }} {{ 'a' < 'B' "
       "}}",
       "True True True True False"},
      {"{{ [1] == (1,) }} {{ (1, 2) == (1, 2) }} {{ {'a': 1} == {'a': 1.0} }} {{ 1.0 in [1] }} {{ "
       "1 in {1: 2} }}",
       "False True True True True"},
      {"{{ 'ab' * 3 }} {{ [1] * 2 }} {{ 2 * 'x' }} {{ 'x' * -1 }}| {{ (1,) + (2,) }}",
       "ababab [1, 1] xx | (1, 2)"},
      {R"({{ 'a' 'b' "c" }} {{ '\x41\u00e9|\101|\q|\'' }} {{ 9223372036854775807 }})",
       R"(abc Aé|A|\q|' 9223372036854775807)"},
      {"{{ [1, 2, 3][::2] }} {{ (1, 2, 3)[1:] }} {{ [1, 2].0 }} {{ [[1]].0.0 }} {{ range(5)[1:3] | "
       "list }} {{ 'abc'[true] }}",
       "[1, 3] (2, 3) 1 1 [1, 2] b"},
  });
}

TEST(ChatLanguageTest, PrintsValuesLikePython) {
  expect_texts({
      {R"({{ {'a': 1, 'b': [1, 'x', none, true, 1.5, "it's", 'say "hi"', '\'"']} }})",
       R"({'a': 1, 'b': [1, 'x', None, True, 1.5, "it's", 'say "hi"', '\'"']})"},
      {R"({{ ['a\nb\t', 'c\\d', 'é', '\u00a0', '\u200b', '日本', '\x7f'] }})",
       R"(['a\nb\t', 'c\\d', 'é', '\xa0', '\u200b', '日本', '\x7f'])"},
      {"{{ (1, 2) }}{{ (1,) }}{{ () }}{{ 1, 2 }}{{ {1: 2, 'x': (3,)} }}",
       "(1, 2)(1,)()(1, 2){1: 2, 'x': (3,)}"},
      {"{{ 'a' ~ 1 ~ none ~ [1] ~ {'a': missing} ~ 1.5 }}", "a1None[1]{'a': Undefined}1.5"},
      {"{{ [1] | string }}{{ {'a': 1} | trim }}{{ none | upper }}", "[1]{'a': 1}NONE"},
      {"{{ ['<' | safe] }}", "[Markup('<')]"},
  });
}

TEST(ChatLanguageTest, AppliesFiltersLikeJinja) {
  expect_texts({
      {"{{ {'b': 1, 'A': 2, 'a': 0} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ "
       "{'b': 1, 'a': 2} | dictsort(reverse=true) }} {{ {'b': 1, 'B': 2, 'a': 0} | dictsort(true) "
       "}} {{ {512: 1, 0: 2} | dictsort }}",
       "[('A', 2), ('a', 0), ('b', 1)] [('b', 1), ('a', 2)] [('b', 1), ('a', 2)] [('B', 2), ('a', "
       "0), ('b', 1)] [(0, 2), (512, 1)]"},
      {"{{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [1, 2] | "
       "sort(reverse=true) }} {{ [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b') }} "
       "{{ 'hello' | sort | join }}",
       "['A', 'b', 'c'] ['A', 'b'] [2, 1] [{'a': 1, 'b': 1}, {'a': 1, 'b': 2}] ehllo"},
      {"{{ ['a', 'A', 'b'] | unique | list }} {{ [{'x': 1}, {'x': 1}] | unique(attribute='x') | "
       "list }} {{ ['a', 'A'] | unique(true) | list }}",
       "['a', 'b'] [{'x': 1}] ['a', 'A']"},
      {"{{ [3, 1] | min }} {{ [3, 1] | max }} {{ [] | min }} {{ ['b', 'A'] | min }} {{ [{'a': 2}, "
       "{'a': 1}] | min(attribute='a') }} {{ [1, 2.5] | sum }} {{ [{'a': 1}, {'a': 2}] | "
       "sum(attribute='a') }}",
       "1 3  A {'a': 1} 3.5 3"},
      {R"({{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, first=true) }}|{{ 'a\n\nb' | indent(1, false, true) }}|{{ 'a\nb' | indent('> ') }})",
       "a\n    b\n\n    c|  a\n  b|a\n \n b|a\n> b"},
      {"{{ 2.5 | round }} {{ 3.5 | round }} {{ 42 | round }} {{ 2.675 | round(2) }} {{ 2.1 | "
       "round(method='ceil') }} {{ 42.7 | int }} {{ ' 42.7 ' | int }} {{ 'x' | int(7) }} {{ '1.5' "
       "| float }} {{ -5 | abs }}",
       "2.0 4.0 42 2.67 3.0 42 42 7 1.5 5"},
      {"{{ none | select | list }} {{ none | map(attribute='x') | list }} {{ [1, 2, 3] | "
       "select('gt', 1) | list }} {{ [{'a': 1}, {}] | selectattr('a', 'defined') | list }} {{ "
       "[{'a': 'x'}] | selectattr('a', 'in', ['x', 'y']) | list }}",
       "[] [] [2, 3] [{'a': 1}] [{'a': 'x'}]"},
      {"{{ ['aXa'] | map('replace', 'X', 'Y') | list }} {{ [{'a': 1}, {}] | map(attribute='a', "
       "default=0) | list }} {{ [{'items': 5}] | map(attribute='items') | list }} {{ ['ab'] | "
       "map(attribute='0') | first }}",
       "['aYa'] [1, 0] [5] a"},
      {"{{ 'yes' if ([] | select) else 'no' }}{% set g = [1, 2] | select %}{{ g | list }}{{ g | "
       "list }}",
       "yes[1, 2][]"},
      {"{{ 'abc' | reverse }} {{ 'abc' | list }} {{ {'a': 1, 'b': 2} | last }} {{ 'abc' | "
       "join(',') }} {{ [{'a': 1}] | join(',', attribute='a') }} {{ 'aaa' | replace('a', 'b', 1) "
       "}} {{ 5 | replace('5', 6) }} {{ 'xax' | trim('x') }}",
       "cba ['a', 'b', 'c'] b a,b,c 1 baa 6 a"},
      {"{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ [1, 2] | tojson(separators=(',', ':')) "
       "}} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ ((1, 2.0), {1: none}) | tojson }} {{ [1] | "
       "tojson(indent=0) }} {{ [1e20, 0.1] | tojson }}",
       R"({"a": 2, "b": 1} [1,2] "\u00e9\ud83d\ude00" [[1, 2.0], {"1": null}] [
1
] [1e+20, 0.1])"},
      {R"({{ "'" | safe + 'a<b' }} {{ 'a<b' + ("'" | safe) }} {{ ("'" | safe) ~ 'a<b' }} {{ '<b>' | escape }} {{ '<' | e | e }} {{ ('<' | safe | upper) + '<' }})",
       "'a&lt;b a&lt;b' 'a<b &lt;b&gt; &lt; <&lt;"},
  });
}

TEST(ChatLanguageTest, CallsMethodsLikePython) {
  expect_texts({
      {"{{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'abcabc'.rfind('b') }} {{ "
       "'abcabc'.count('b') }} {{ 'éab'.index('b') }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) "
       "}}",
       "2 -1 4 2 2 2 1"},
      {R"({{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.split(none, 1) }} {{ 'a b c'.split(maxsplit=1) }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.rpartition('=') }})",
       R"(['a,b', 'c'] ['a', 'b c'] ['a', 'b c'] ['a', 'b', 'c'] ['a\n', 'b\n'] ('a', '=', 'b=c') ('a=b', '=', 'c') ('', '', 'abc'))"},
      {"{{ 'abc'.startswith(('x', 'a')) }} {{ 'TestX'.removeprefix('Test') }} {{ "
       "'abc'.removesuffix('c') }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'ab1'.isalnum() }} "
       "{{ ' '.isspace() }} {{ 'AB1'.isupper() }} {{ '1'.islower() }} {{ 'aB'.swapcase() }}",
       "True X ab True False True True True False Ab"},
      {"{{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'aaa'.replace('a', 'b', "
       "2) }} {{ ''.join('abc') }} {{ '-'.join({'a': 1, 'b': 2}) }}",
       "-007 a  | ..a bba abc a-b"},
      {"{{ {'a': 1}.items() | list }} {{ {'a': 1}.items() | length }} {{ {'a': 1}.items()[0] is "
       "defined }} {{ 'a' in {'a': 1}.keys() }} {{ {'a': none}.get('a', 1) }} {{ {'a': 1}.copy() "
       "}}",
       "[('a', 1)] 1 False True None {'a': 1}"},
  });
}

TEST(ChatLanguageTest, FormatsLikePython) {
  expect_texts({
      {"{{ '%s and %d' % ('a', 5) }} {{ '%5s|%-5s|%05d|%.2f|%x|%%' % ('a', 'b', 42, 3.14159, 255) "
       "}} {{ '%r' % 'x' }} {{ '%(a)s' % {'a': 1} }} {{ '%s' % [1] }} {{ '%s %s' | format(1, 2) }} "
       "{{ '%(a)s' | format(a=3) }}",
       "a and 5     a|b    |00042|3.14|ff|% 'x' 1 [1] 1 2 3"},
      {"{{ '{} {}'.format('a', 1) }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}{{}}'.format(x=5) }} "
       "{{ '{!r}'.format('x') }} {{ '{0[a]}{0[b][1]}'.format({'a': 1, 'b': [2, 3]}) }}",
       "a 1 ba 5{} 'x' 13"},
      {"{{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:*>6}|{:+d}|{:x}'.format('a', 'b', 'c', 42, "
       "3.14159, 1234567, 12, 3, 255) }}",
       "    a|b    |  c  |00042|3.14|1,234,567|****12|+3|ff"},
      {"{{ '{:5}|{:5}|{:5}|{:.2}'.format('a', 1, 1.5, 'abc') }} {{ '{}'.format([1, 'a']) }}",
       "a    |    1|  1.5|ab [1, 'a']"},
  });
}

TEST(ChatLanguageTest, PrefersMethodsToEntriesLikeJinja) {
  expect_texts({
      {"{{ {'items': 5}.items is defined }} {{ {'items': 5}['items'] }} {{ {'items': 5}.items is "
       "number }} {{ {'x': 1}.items is defined }} {{ {'x': 1}.foo is defined }}",
       "True 5 False True False"},
      {"{{ {'items': {'type': 'x'}}.items.type is defined }} {{ {'get': 1}.get('get') }} {{ {'x': "
       "1}['get'] is callable }} {{ {'pop': 1}.pop is defined }} {{ {'pop': 1}['pop'] }}",
       "False 1 True False 1"},
      {"{{ none.x is defined }} {{ none['x'] is defined }} {{ 5 [0] is defined }} {{ {'a': 1}[0] "
       "is defined }} {{ [1]['a'] is defined }} {{ 'abc'.x is defined }}",
       "False False False False False False"},
  });
}

TEST(ChatLanguageTest, TestsValuesLikeJinja) {
  expect_texts({
      {"{{ 5.5 is float }} {{ true is integer }} {{ true is number }} {{ {} is sequence }} {{ () "
       "is sequence }} {{ 5 is iterable }} {{ 6 is divisibleby 3 }} {{ 'a' is lower }} {{ 'A' is "
       "upper }} {{ 1 is sameas true }} {{ namespace is callable }}",
       "True False True True True False True True True False True"},
      {"{{ ([1] | select) is iterable }} {{ ([1] | select) is sequence }} {{ {'a': 1}.keys() is "
       "sequence }} {{ range(3) is sequence }} {{ 5 is gt 3 }} {{ 5 is le(4) }} {{ 'x' | safe is "
       "escaped }} {{ missing is sequence }}",
       "True False False True True False True True"},
      {"{{ missing ~ 'a' }} {{ missing | upper }} {{ missing | list }} {{ missing == none }} {{ "
       "'x' in missing }} {{ missing | d(missing) is defined }}",
       "a  [] False False False"},
  });
}

// Jinja refuses them as well.
TEST(ChatLanguageTest, RefusesInvalidOperations) {
  const char* const sources[] = {
      "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
      "{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}",
      "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}",
      "{% macro f() %}{% endmacro %}{% call f() %}{% endcall %}",
      "{% macro f(a=1, b) %}{% endmacro %}",
      "{% call f %}{% endcall %}",
      "{{ f(1) }}{% macro f(a) %}{% endmacro %}",
      "{{ [1].append(2) }}",
      "{{ {'a': 1}.pop('a') }}",
      "{{ {'a': 1}.b() }}",
      "{% set a, b = [1] %}",
      "{% for x in none %}{% endfor %}",
      "{{ 'a' < 1 }}",
      "{{ [none, 1] | sort }}",
      "{{ [1] + (2,) }}",
      "{{ 1 / 0 }}",
      "{{ 1 // 0 }}",
      "{{ missing < 1 }}",
      "{{ missing[1:] }}",
      "{{ missing | int }}",
      "{{ missing() }}",
      "{{ 'x' in none }}",
      "{{ 1 in 'abc' }}",
      "{{ [1] | select | tojson }}",
      "{{ ([1] | select) | length }}",
      "{{ none | dictsort }}",
      "{{ none | list }}",
      "{{ 5 | indent }}",
      "{{ ','.join([1]) }}",
      "{{ 'abc'.index('z') }}",
      "{{ [[1]] | unique | list }}",
      "{{ '%s %s' % 'x' }}",
      "{{ '%d' % 'x' }}",
      "{{ '{}'.format() }}",
      "{{ '{a}'.format(b=1) }}",
      "{{ {[1]: 2} }}",
      R"({{ '\x4' }})",
  };
  for (const char* source : sources) {
    const Error error = error_of(source);
    EXPECT_EQ(error.code, Errc::unsupported) << source;
    EXPECT_TRUE(contains(error.message, "line 1"));
    EXPECT_TRUE(contains(error.message, "--chat-template FILE"));
  }
}

// Hugging Face's environment has no such filter; templates written for other engines use it.
TEST(ChatLanguageTest, ReadsJson) {
  EXPECT_EQ(text_of(R"({{ ('{"a": [1, null, 2.5]}' | from_json).a }})"), "[1, None, 2.5]");
  EXPECT_TRUE(contains(error_of("{{ '{' | from_json }}").message, "not valid JSON"));
}

// Every level takes stack, so endless recursion ends before the stack does.
TEST(ChatLanguageTest, LimitsRecursionOfMacros) {
  const char* const sources[] = {
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(x=f()) %}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{% if 1 %}{% for i in [1] %}"
      "{% set x %}{{ [(f() | upper,)] }}{% endset %}{% endfor %}{% endif %}{% endmacro %}{{ g() }}",
      "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ caller() }}{% call f() %}{% endcall %}{% endmacro %}"
      "{% call f() %}{% endcall %}",
  };
  for (const char* source : sources) EXPECT_TRUE(contains(error_of(source).message, "too deeply"));
  EXPECT_EQ(text_of("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% else %}end{% endif %}{% endmacro %}"
                    "{{ f(50) }}"),
            "end");
}

TEST(ChatLanguageTest, LimitsStepsAndOutputOfMacros) {
  const std::string twice = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% else %}";
  EXPECT_EQ(error_of(twice + "{% endif %}{% endmacro %}{{ f(40) }}").code, Errc::usage);
  EXPECT_EQ(error_of("{% macro f(x, n) %}{{ f(x + x, n - 1) if n else x }}{% endmacro %}"
                     "{{ f('aaaaaaaa', 40) }}")
                .code,
            Errc::usage);
  EXPECT_EQ(error_of("{{ 'a' * 100000000 }}").code, Errc::usage);
  EXPECT_EQ(error_of("{{ [1] * 100000000 }}").code, Errc::usage);
  EXPECT_EQ(error_of("{{ ('b' * 100000) | list | sort | map('upper') | list | join }}").code,
            Errc::usage);
}

TEST(ChatLanguageTest, RefusesFormatsOfExcessiveWidth) {
  for (const char* source : {"{{ '%99999999999d' % 1 }}", "{{ '{:>99999}'.format('a') }}",
                             "{{ 'a'.rjust(99999999) }}", "{{ '{:.99999f}'.format(1.5) }}"}) {
    EXPECT_EQ(error_of(source).code, Errc::unsupported) << source;
  }
}

}  // namespace
}  // namespace edgedraft
