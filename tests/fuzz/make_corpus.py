#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets, next to this script.

Small valid files and messages, from which the fuzzers start. The output is deterministic. Needs flatc.
"""

import gzip
import hashlib
import json
import os
import struct
import subprocess
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
SCHEMA = os.path.join(os.path.dirname(HERE), "..", "..", "shared", "protocol", "messages.fbs")

# Elements and bytes of a block: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ2_XXS, IQ2_XS, IQ3_XXS,
# IQ4_NL, IQ3_S, IQ2_S, IQ4_XS, MXFP4.
BLOCKS = {
    2: (32, 18),
    3: (32, 20),
    6: (32, 22),
    7: (32, 24),
    8: (32, 34),
    10: (256, 84),
    11: (256, 110),
    12: (256, 144),
    13: (256, 176),
    14: (256, 210),
    16: (256, 66),
    17: (256, 74),
    18: (256, 98),
    20: (32, 18),
    21: (256, 110),
    22: (256, 82),
    23: (256, 136),
    39: (32, 17),
}
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5


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


def write(target: str, name: str, content: bytes) -> None:
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item) -> bytes:
    if isinstance(item, bool):
        return struct.pack("<IB", BOOL, item)
    if isinstance(item, int):
        return struct.pack("<II", U32, item)
    if isinstance(item, float):
        return struct.pack("<If", F32, item)
    if isinstance(item, str):
        return struct.pack("<I", STRING) + text(item)
    if isinstance(item[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(item)) + b"".join(map(text, item))
    kind, form = (F32, "f") if isinstance(item[0], float) else (I32, "i")
    return struct.pack("<IIQ", ARRAY, kind, len(item)) + struct.pack(f"<{len(item)}{form}", *item)


def gguf(metadata: dict, tensors: dict) -> bytes:
    """Tensors by name: dimensions, innermost first; float32, counting up from 0.25.

    A pair of ggml's number of a quantised type and dimensions gives blocks of zeros.
    """
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, item in metadata.items():
        out += text(key) + value(item)
    data = b""
    for name, dims in tensors.items():
        kind = 0
        if isinstance(dims, tuple):
            kind, dims = dims
        out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        count = 1
        for dim in dims:
            count *= dim
        if kind == 0:
            data += struct.pack(f"<{count}f", *(0.25 * (i + 1) for i in range(count)))
        else:
            elements, size = BLOCKS[kind]
            data += bytes(count // elements * size)
        data += b"\0" * (-len(data) % 32)
    return out + b"\0" * (-len(out) % 32) + data


def layer(prefix: str, dim: int, query: int, kv: int, ffn: int) -> dict:
    return {
        f"{prefix}attn_norm.weight": [dim],
        f"{prefix}attn_q.weight": [dim, query],
        f"{prefix}attn_k.weight": [dim, kv],
        f"{prefix}attn_v.weight": [dim, kv],
        f"{prefix}attn_output.weight": [query, dim],
        f"{prefix}ffn_norm.weight": [dim],
        f"{prefix}ffn_gate.weight": [dim, ffn],
        f"{prefix}ffn_up.weight": [dim, ffn],
        f"{prefix}ffn_down.weight": [ffn, dim],
    }


TOKENIZER = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "▁a", "a", "▁", "b", "ab"],
    "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1.0, -3.0, -4.0, -5.0, -2.0],
    "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.add_space_prefix": False,
    "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}",
}


def make_gguf() -> None:
    write("gguf", "tokenizer", gguf(TOKENIZER, {}))
    write(
        "gguf",
        "byte_bpe",
        gguf(
            {
                "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.pre": "llama-bpe",
                "tokenizer.ggml.tokens": ["a", "b", "Ġ", "ab", "Ġa", "<|eot_id|>", "<code>"],
                "tokenizer.ggml.merges": ["a b", "Ġ a"],
                "tokenizer.ggml.token_type": [1, 1, 1, 1, 1, 3, 4],
                "tokenizer.ggml.bos_token_id": 5,
            },
            {},
        ),
    )
    llama = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 16,
        "llama.embedding_length": 4,
        "llama.feed_forward_length": 6,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.scaling.type": "linear",
        "llama.rope.scaling.factor": 2.0,
        "edgedraft.target.fingerprint": "0" * 64,
    }
    tensors = {"token_embd.weight": [4, 8], "output_norm.weight": [4], "rope_freqs.weight": [1]}
    write("gguf", "llama", gguf({**llama, **TOKENIZER}, {**tensors, **layer("blk.0.", 4, 4, 2, 6)}))

    write(
        "gguf",
        "reduced",
        gguf(
            {**llama, **TOKENIZER, "edgedraft.d2t": [0, 1, 1]},
            {**tensors, "output.weight": [4, 3], **layer("blk.0.", 4, 4, 2, 6)},
        ),
    )

    tensors = {f"t{kind}": (kind, [elements, 2]) for kind, (elements, _) in BLOCKS.items()}
    write("gguf", "blocks", gguf({"general.architecture": "llama", "split.count": 1}, tensors))

    make_families()

    moa = {
        "general.architecture": "edgedraft-moa",
        "edgedraft.tli": 1,
        "edgedraft.context_length": 16,
        "edgedraft.target.layer_count": 1,
        "edgedraft.output_norm.rms_epsilon": 1e-5,
        "edgedraft.fingerprint": "0" * 64,
        "edgedraft.target.fingerprint": "1" * 64,
    }
    for part in ("sa", "ca", "lsa", "target"):
        moa.update(
            {
                f"edgedraft.{part}.embedding_length": 4,
                f"edgedraft.{part}.feed_forward_length": 6,
                f"edgedraft.{part}.head_count": 2,
                f"edgedraft.{part}.head_count_kv": 1,
                f"edgedraft.{part}.key_length": 2,
                f"edgedraft.{part}.rms_epsilon": 1e-5,
                f"edgedraft.{part}.rope.freq_base": 500.0,
                f"edgedraft.{part}.rope.style": "halves",
            }
        )
    tensors = {
        "token_embd.weight": [4, 8],
        "output_norm.weight": [4],
        "ekv2e.weight": [4, 4],
        "ekv2e.bias": [4],
        "sa.rope_freqs.weight": [1],
    }
    for prefix in ("sa.", "ca.", "lsa.", "tli.0."):
        tensors.update(layer(prefix, 4, 4, 2, 6))
    write("gguf", "moa", gguf(moa, tensors))


def family(name: str, dim: int, keys: dict, layers: list) -> None:
    """Seed of an architecture whose layers have these tensors."""
    keys = {
        "block_count": len(layers),
        "context_length": 16,
        "embedding_length": dim,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.key_length": 4,
        "attention.value_length": 4,
        "attention.layer_norm_rms_epsilon": 1e-5,
        **keys,
    }
    metadata = {f"{name}.{key}": item for key, item in keys.items()}
    tensors = {"token_embd.weight": [dim, 8], "output_norm.weight": [dim]}
    for i, parts in enumerate(layers):
        tensors.update({f"blk.{i}.{part}": dims for part, dims in parts.items()})
    write("gguf", name, gguf({"general.architecture": name, **metadata, **TOKENIZER}, tensors))


def experts(dim: int, ffn: int, count: int, kind: int) -> dict:
    return {
        "ffn_gate_inp.weight": [dim, count],
        "ffn_gate_exps.weight": (kind, [dim, ffn, count]),
        "ffn_up_exps.weight": (kind, [dim, ffn, count]),
        "ffn_down_exps.weight": (kind, [ffn, dim, count]),
    }


def attention(dim: int, query: int, kv: int) -> dict:
    return {
        "attn_norm.weight": [dim],
        "attn_q.weight": [dim, query],
        "attn_k.weight": [dim, kv],
        "attn_v.weight": [dim, kv],
        "post_attention_norm.weight": [dim],
    }


def make_families() -> None:
    mixture = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
    feed_forward = {
        **experts(8, 32, 4, 0),
        "ffn_gate_inp_shexp.weight": [8],
        "ffn_gate_shexp.weight": [8, 6],
        "ffn_up_shexp.weight": [8, 6],
        "ffn_down_shexp.weight": [6, 8],
    }
    delta = {
        "attn_norm.weight": [8],
        "post_attention_norm.weight": [8],
        "attn_qkv.weight": [8, 16],
        "attn_gate.weight": [8, 8],
        "ssm_conv1d.weight": [4, 16],
        "ssm_dt.bias": [2],
        "ssm_a": [2],
        "ssm_beta.weight": [8, 2],
        "ssm_alpha.weight": [8, 2],
        "ssm_norm.weight": [4],
        "ssm_out.weight": [8, 8],
    }
    full = {
        **attention(8, 16, 4),
        "attn_output.weight": [8, 8],
        "attn_q_norm.weight": [4],
        "attn_k_norm.weight": [4],
    }
    family(
        "qwen35moe",
        8,
        {
            **mixture,
            "rope.dimension_count": 2,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 4,
            "ssm.group_count": 1,
            "ssm.time_step_rank": 2,
            "ssm.inner_size": 8,
            "full_attention_interval": 2,
            "expert_shared_feed_forward_length": 6,
        },
        [{**delta, **feed_forward}, {**full, **feed_forward}],
    )
    biases = {
        "attn_q.bias": [8],
        "attn_k.bias": [4],
        "attn_v.bias": [4],
        "attn_output.bias": [32],
        "ffn_gate_inp.bias": [4],
        "ffn_gate_exps.bias": [32, 4],
        "ffn_up_exps.bias": [32, 4],
        "ffn_down_exps.bias": [32, 4],
    }
    family(
        "gpt-oss",
        32,
        {
            **mixture,
            "feed_forward_length": 32,
            "attention.sliding_window": 4,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 8.0,
            "rope.scaling.original_context_length": 8,
        },
        [
            {
                **attention(32, 8, 4),
                "attn_output.weight": [8, 32],
                "attn_sinks.weight": [2],
                **experts(32, 32, 4, 39),
                **biases,
            }
        ],
    )


def safetensors(entries: dict, data: bytes) -> bytes:
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + data


def make_safetensors() -> None:
    write(
        "safetensors",
        "two",
        safetensors(
            {
                "__metadata__": {"format": "pt"},
                "a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
                "b": {"dtype": "BF16", "shape": [3], "data_offsets": [8, 14]},
            },
            bytes(14),
        ),
    )
    write("safetensors", "empty", safetensors({}, b""))


def make_index() -> None:
    """A corpus of two documents, and the positions of its suffixes in order."""
    end = 0xFFFFFFFF
    tokens = [0, 1, 2, 0, 1, end, 2, 0, 1, 2, end]

    def suffix(at: int) -> list:
        return tokens[at : tokens.index(end, at)]

    order = sorted(
        (at for at, token in enumerate(tokens) if token != end), key=lambda at: (suffix(at), at)
    )
    content = struct.pack(f"<{len(tokens) + len(order)}I", *tokens, *order)
    header = b"EDGEIDX\n" + struct.pack("<6I", 1, 1, 4, len(tokens), len(order), 0)
    header += bytes(32) + hashlib.sha256(content).digest()
    write("index", "two_documents", header + hashlib.sha256(header).digest() + content)


def make_sentencepiece() -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    pieces = b"".join(
        field(1, field(1, piece.encode()) + b"\x15" + struct.pack("<f", -1.0) + bytes([0x18, kind]))
        for piece, kind in (("<unk>", 2), ("▁a", 1), ("<0x0A>", 6))
    )
    trainer = field(2, b"\x18\x02" + b"\x98\x02\x01" + b"\xc0\x02\x00")
    write("sentencepiece", "three", pieces + trainer + field(3, b"\x18\x00\x20\x00"))


def make_texts() -> None:
    for index, sample in enumerate(
        ["the cat", "  a ", "<s>b</s><|end|>", "ünï 日本 👩‍👩‍👧", "\n\t\0"]
    ):
        write("tokenizer", f"text{index}", sample.encode())
    write("tokenizer", "broken", b"\xff\xc3the\xe2\x82 \xed\xa0\x80")


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


def letter(byte: int) -> str:
    """How byte-level vocabularies spell a byte below 128."""
    return chr(byte) if 0x21 <= byte <= 0x7E else chr(0x100 + byte + (0 if byte <= 0x20 else -0x5E))


def make_tokenizer_json() -> None:
    letters = {letter(byte): byte for byte in range(128)}
    special = {
        "id": 130,
        "content": "<s>",
        "special": True,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
    byte_level = {
        "added_tokens": [special],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            ],
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
        },
        "model": {
            "type": "BPE",
            "vocab": {**letters, "th": 128, "the": 129},
            "merges": ["t h", ["th", "e"]],
        },
    }
    write("tokenizer_json", "nfc", json.dumps(byte_level, ensure_ascii=False).encode())
    byte_level["normalizer"] = None
    write("tokenizer_json", "byte_level", json.dumps(byte_level, ensure_ascii=False).encode())
    pieces = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3, "b": 4, "ab": 5, "<0xFF>": 6}
    llama = {
        "added_tokens": [],
        "pre_tokenizer": None,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": pieces,
            "merges": ["▁ a", "a b"],
        },
    }
    write("tokenizer_json", "llama", json.dumps(llama, ensure_ascii=False).encode())
    unigram = {
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": "first",
            "split": True,
        },
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [["<unk>", 0.0], ["▁", -3.0], ["▁a", -1.5]],
        },
    }
    write("tokenizer_json", "unigram", json.dumps(unigram, ensure_ascii=False).encode())


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


KINDS = {
    "Hello": 1,
    "Welcome": 2,
    "Prefill": 3,
    "Activations": 4,
    "Verdict": 6,
    "Resume": 7,
    "Ping": 8,
    "Pong": 9,
    "Cancel": 10,
    "Close": 11,
    "Error": 12,
    "Hints": 13,
}


def payload(table: str, fields: dict) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "message.json")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(fields, file)
        subprocess.run(
            [
                "flatc",
                "--binary",
                "--root-type",
                f"edgedraft.flat.{table}",
                "-o",
                folder,
                SCHEMA,
                source,
            ],
            check=True,
        )
        with open(os.path.join(folder, "message.bin"), "rb") as file:
            return file.read()


def frame(table: str, fields: dict) -> bytes:
    content = payload(table, fields)
    return struct.pack("<HHI", 1, KINDS[table], len(content)) + content


def make_messages() -> None:
    """Messages: a byte that is the kind, then the payload. Streams: a byte for the target, then frames."""
    digest, session = [7] * 32, list(range(16))
    sampling = {"seed": 9, "temperature": 0.75, "top_k": 40, "top_p": 0.5, "min_p": 0.25}
    # Eight rows of the fuzz target's layout: 8 int8 values and two float16 scales each.
    packed = bytes(range(64)) + struct.pack("<16e", *(0.5 for _ in range(16)))
    messages = {
        "hello": (
            "Hello",
            {
                "version_min": 4,
                "version_max": 4,
                "agent": "edgedraft 0.1",
                "token": "secret",
                "target": digest,
                "tokenizer": digest,
                "drafter": digest,
                "drafter_name": "tiny",
                "tap": "rows-2",
            },
        ),
        "welcome": (
            "Welcome",
            {
                "version": 4,
                "session": session,
                "agent": "edgedraft-server 0.1",
                "model": "demo",
                "context_count": 64,
                "nodes_max": 8,
                "scale_groups": [5, 3],
                "hint_nodes_max": 1024,
            },
        ),
        "prefill": (
            "Prefill",
            {
                "round": 1,
                "base_length": 2,
                "tokens": [1, 2, 3],
                "provisional_count": 1,
                "policy": 1,
                "activations_from": 2,
                "sampling": sampling,
            },
        ),
        "run_prefill": (
            "Prefill",
            {
                "round": 1,
                "tokens": [1, 2, 3],
                "sampling": sampling,
                "credit": 40,
                "verdict_rows": True,
                "hold": 2,
            },
        ),
        "constrained_prefill": (
            "Prefill",
            {
                "round": 1,
                "tokens": [1, 2, 3],
                "sampling": sampling,
                "stop": ["\n", "END"],
                "grammar": 'root ::= "a"+',
                "answer_begin": 3,
                "bias_tokens": [7],
                "biases": [-2.5],
                "presence_penalty": 0.5,
                "frequency_penalty": -0.5,
            },
        ),
        "activations": (
            "Activations",
            {
                "round": 1,
                "first": 0,
                "count": 8,
                "codec": 1,
                "data": list(gzip.compress(packed, 9, mtime=0)),
            },
        ),
        "complete_hints": (
            "Hints",
            {
                "round": 1,
                "position": 4,
                "complete": True,
                "nodes": [token | parent << 24 for token, parent in ((5, 0), (6, 0), (7, 2))],
            },
        ),
        "verdict": (
            "Verdict",
            {"round": 2, "length": 5, "next": 7, "ending": 1, "queue_us": 20, "verify_us": 300},
        ),
        "resync_verdict": ("Verdict", {"round": 1, "length": 5, "next": 7, "accepted_count": 1}),
        "drafted_verdict": (
            "Verdict",
            {
                "round": 3,
                "length": 19,
                "next": 77,
                "tokens": [5, 0xFFFFFF],
                "drafted": 62,
                "draft_us": 99,
            },
        ),
        "run_verdict": (
            "Verdict",
            {
                "round": 1,
                "length": 6,
                "next": 77,
                "tokens": [5],
                "activations": [0] * 24,
                "hinted": 3,
                "hints_seen": 4,
            },
        ),
        "hints": (
            "Hints",
            {
                "round": 1,
                "credit": 50,
                "first": 2,
                "position": 4,
                "prefix_hash": 12345,
                "nodes": [token | score << 24 for token, score in ((5, 0), (6, 9), (7, 255))],
                "parents": [0, 1, 3],
            },
        ),
        "resume": (
            "Resume",
            {
                "round": 1,
                "session": session,
                "verified_length": 3,
                "verified_hash": digest,
                "tokens": [4, 5],
                "policy": 1,
                "activations_from": 1,
                "sampling": sampling,
            },
        ),
        "ping": ("Ping", {"nonce": 1}),
        "pong": ("Pong", {"nonce": 1}),
        "cancel": ("Cancel", {"round": 1}),
        "close": ("Close", {"reason": "bye"}),
        "error": ("Error", {"round": 4, "code": 9, "fatal": True, "message": "full"}),
    }
    for name, (table, fields) in messages.items():
        write("messages", name, bytes([KINDS[table]]) + payload(table, fields))

    frames = {name: frame(table, fields) for name, (table, fields) in messages.items()}
    # A client's first messages after sign-in: a session without tokens.
    first_prompt = frame("Prefill", {"round": 1, "tokens": [1, 2, 3], "sampling": sampling})
    run = frame(
        "Prefill",
        {"round": 1, "tokens": [1, 2, 3], "sampling": sampling, "credit": 40, "verdict_rows": True},
    )
    lockstep = frame(
        "Prefill", {"round": 1, "tokens": [1, 2, 3], "sampling": sampling, "credit": 40, "hold": 2}
    )
    streams = {
        "hello": b"\x28" + frames["hello"],
        "resume": b"\xff" + frames["resume"] + frames["ping"],
        "to_client": b"\x05" + frames["welcome"] + frames["ping"] + frames["error"],
        "to_client_verdict": b"\x64" + frames["welcome"] + frames["resync_verdict"],
        "to_server": b"\x90" + first_prompt + frames["cancel"] + frames["ping"] + frames["close"],
        "to_server_lockstep": b"\x80" + lockstep + frames["complete_hints"],
        "to_server_hints": b"\x80" + run + frames["hints"],
    }
    for name, content in streams.items():
        write("frame", name, content)


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


if __name__ == "__main__":
    make_gguf()
    make_safetensors()
    make_index()
    make_sentencepiece()
    make_texts()
    make_templates()
    make_tokenizer_json()
    make_networks()
    make_messages()
    make_requests()
