#!/usr/bin/env python3
"""Writes a GGUF of random weights in the shape of a mixture of experts, of a dense model with as many active
parameters, or of a hybrid, for timing this project and other engines on one file:

    python3 random_families.py moe --type q4_k -o moe.gguf
    edgedraft-bench engine --model moe.gguf --widths 1,2,4,8,16,32,64 --peer llama-bench

    moe     2 layers of Qwen3-30B-A3B: 8 of 128 experts per token
    dense   the same layers with one feed-forward as large as 8 experts
    hybrid  8 layers of Qwen3.5-0.8B: 6 gated delta nets, 2 of attention

The vocabulary is a small model's (--tokenizer), since engines differ in how many rows of logits a prompt computes.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from gguf_file import F32, read_gguf, write_gguf

DEMO = os.path.join(os.path.dirname(__file__), "../models/demo/target.gguf")
VALUES = (
    {  # per type: its number, elements and bytes of a block, and the float16 scales it begins with
        "q4_0": (2, 32, 18, 1),
        "q4_k": (12, 256, 144, 2),
    }
)
QWEN3 = {
    "context_length": 4096,
    "embedding_length": 2048,
    "feed_forward_length": 6144,
    "block_count": 2,
    "attention.head_count": 32,
    "attention.head_count_kv": 4,
    "attention.key_length": 128,
    "attention.value_length": 128,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e6,
}
SHAPES = {
    "moe": (
        "qwen3moe",
        {**QWEN3, "expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768},
    ),
    "dense": ("qwen3", QWEN3),
    "hybrid": (
        "qwen35",
        {
            "context_length": 4096,
            "embedding_length": 1024,
            "feed_forward_length": 3584,
            "block_count": 8,
            "full_attention_interval": 4,
            "attention.head_count": 8,
            "attention.head_count_kv": 2,
            "attention.key_length": 256,
            "attention.value_length": 256,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 1e7,
            "rope.dimension_count": 64,
            "rope.dimension_sections": [11, 11, 10, 0],
            "ssm.conv_kernel": 4,
            "ssm.state_size": 128,
            "ssm.group_count": 16,
            "ssm.time_step_rank": 16,
            "ssm.inner_size": 2048,
        },
    ),
}


class Writer:
    def __init__(self, shape: str, kind: str) -> None:
        self.arch, self.keys = SHAPES[shape]
        self.tensors: dict[str, tuple[int, list[int], np.ndarray]] = {}  # type, shape, content
        self.kind = kind
        self.random = np.random.default_rng(1)

    def matrix(
        self, name: str, rows: int, cols: int, experts: int = 1, deviation: float = 0.0
    ) -> None:
        """Random bytes with constant scales; the default deviation keeps activations of order one."""
        number, elements, size, scales = VALUES[self.kind]
        deviation = deviation or cols**-0.5
        blocks = self.random.integers(
            0, 256, (experts * rows * cols // elements, size), dtype=np.uint8
        )
        # Four bits deviate by 4.6 steps; a Q4_K step is a six-bit scale, 32 on average.
        values = (
            [deviation / 4.6] if scales == 1 else [deviation / 4.6 / 37, 7.5 * deviation / 4.6 / 37]
        )
        blocks[:, : 2 * scales] = np.array(values, dtype=np.float16).view(np.uint8)
        shape = [rows, cols] if experts == 1 else [experts, rows, cols]
        self.tensors[name] = (number, shape, blocks)

    def vector(self, name: str, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values, dtype="<f4")
        self.tensors[name] = (F32, list(values.shape), values)

    def ones(self, name: str, cols: int) -> None:
        self.vector(name, np.ones(cols))

    def attention(self, layer: str, gated: bool) -> None:
        k = self.keys
        dim, head = k["embedding_length"], k["attention.key_length"]
        cols, kv_cols = (k["attention.head_count"] * head, k["attention.head_count_kv"] * head)
        self.matrix(layer + "attn_q.weight", 2 * cols if gated else cols, dim)
        self.matrix(layer + "attn_k.weight", kv_cols, dim)
        self.matrix(layer + "attn_v.weight", kv_cols, dim)
        self.matrix(layer + "attn_output.weight", dim, cols)
        self.ones(layer + "attn_q_norm.weight", head)
        self.ones(layer + "attn_k_norm.weight", head)

    def delta_net(self, layer: str) -> None:
        k = self.keys
        dim, heads, head, inner = (
            k["embedding_length"],
            k["ssm.time_step_rank"],
            k["ssm.state_size"],
            k["ssm.inner_size"],
        )
        mixed = 2 * k["ssm.group_count"] * head + inner
        self.matrix(layer + "attn_qkv.weight", mixed, dim)
        self.matrix(layer + "attn_gate.weight", inner, dim)
        self.matrix(layer + "ssm_alpha.weight", heads, dim)
        self.matrix(layer + "ssm_beta.weight", heads, dim)
        self.matrix(layer + "ssm_out.weight", dim, inner)
        self.vector(
            layer + "ssm_conv1d.weight", self.random.normal(0, 0.5, (mixed, k["ssm.conv_kernel"]))
        )
        self.vector(layer + "ssm_dt.bias", self.random.uniform(-1, 1, heads))
        self.vector(layer + "ssm_a", -self.random.uniform(0.5, 4, heads))
        self.ones(layer + "ssm_norm.weight", head)

    def feed_forward(self, layer: str) -> None:
        k = self.keys
        dim, experts = k["embedding_length"], k.get("expert_count", 1)
        inner = k.get("expert_feed_forward_length", k["feed_forward_length"])
        suffix = "_exps.weight" if experts > 1 else ".weight"
        if experts > 1:
            self.vector(
                layer + "ffn_gate_inp.weight", self.random.normal(0, dim**-0.5, (experts, dim))
            )
        self.matrix(layer + "ffn_gate" + suffix, inner, dim, experts)
        self.matrix(layer + "ffn_up" + suffix, inner, dim, experts)
        self.matrix(layer + "ffn_down" + suffix, dim, inner, experts)

    def write(self, path: str, tokenizer: str) -> None:
        with open(tokenizer, "rb") as file:
            known = read_gguf(file.read())[0]
        metadata = {"general.architecture": self.arch}
        metadata.update({f"{self.arch}.{key}": value for key, value in self.keys.items()})
        metadata.update({key: known[key] for key in known if key.startswith("tokenizer.ggml.")})
        metadata["tokenizer.ggml.pre"] = "default"
        words = known["tokenizer.ggml.tokens"]

        dim = self.keys["embedding_length"]
        self.matrix("token_embd.weight", len(words), dim, deviation=1.0)
        self.matrix("output.weight", len(words), dim)
        self.ones("output_norm.weight", dim)
        is_hybrid = self.arch == "qwen35"
        for i in range(self.keys["block_count"]):
            layer = f"blk.{i}."
            self.ones(layer + "attn_norm.weight", dim)
            self.ones(
                layer + ("post_attention_norm.weight" if is_hybrid else "ffn_norm.weight"), dim
            )
            if is_hybrid and (i + 1) % self.keys["full_attention_interval"] != 0:
                self.delta_net(layer)
            else:
                self.attention(layer, gated=is_hybrid)
            self.feed_forward(layer)
        with open(path, "wb") as out:
            write_gguf(out, metadata, self.tensors)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument(
        "--type", choices=VALUES, default="q4_k", help="of all matrices but the router's [q4_k]"
    )
    parser.add_argument(
        "--tokenizer", default=DEMO, help="a GGUF with a SentencePiece vocabulary [the demo target]"
    )
    parser.add_argument("-o", "--out", required=True)
    args = parser.parse_args()
    Writer(args.shape, args.type).write(args.out, args.tokenizer)


if __name__ == "__main__":
    main()
