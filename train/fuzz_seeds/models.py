"""Model files: GGUF of every family with its own tensors, safetensors, an index of a corpus."""

import hashlib
import io
import json
import math
import struct

from fuzz_seeds.corpus import write
from gguf_file import F32, write_gguf

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

I64 = 27


def gguf(metadata: dict, tensors: dict) -> bytes:
    """Tensors by name: dimensions, innermost first; float32, counting up from 0.25.

    A pair of ggml's number of a quantised type and dimensions gives blocks of zeros; of I64, numbers from 0.
    """
    filled = {}
    for name, dims in tensors.items():
        kind, dims = dims if isinstance(dims, tuple) else (F32, dims)
        count = math.prod(dims)
        if kind == I64:
            content = struct.pack(f"<{count}q", *range(count))
        elif kind == F32:
            content = struct.pack(f"<{count}f", *(0.25 * (i + 1) for i in range(count)))
        else:
            elements, size = BLOCKS[kind]
            content = bytes(count // elements * size)
        filled[name] = (kind, dims[::-1], content)
    out = io.BytesIO()
    write_gguf(out, metadata, filled)
    return out.getvalue()


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
