#!/usr/bin/env python3
"""Writes the Llama of a GGUF file as a Hugging Face folder, for a target that exists only as that file.

The folder has config.json, model.safetensors in 32 bits (for Q8_0 exactly the decoded values), tokenizer.model and
tokenizer_config.json with the chat template. distill_answers.py --target and edgedraft convert read it.  It reads
files with F32, F16 or Q8_0 matrices and a SentencePiece byte-pair tokenizer, as edgedraft convert writes them.

Example:
    python3 unpack_gguf.py --model ../models/demo/target.gguf --out target
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
from typing import Any, Dict, List

import numpy
import torch

from checkpoint import llama_config_json, write_folder
from gguf_file import read_gguf
from model import LlamaConfig

SPACE_RULE = "edgedraft.tokenizer.space_prefix"  # Hugging Face's "first" or "always"; without it, spaces follow SentencePiece
# Ids that end an answer: one key each, as in shared/model/tokenizer/vocabulary.cpp, and the list that edgedraft convert
# writes if there are more than three.
END_KEYS = tuple(
    f"tokenizer.ggml.{name}_token_id"
    for name in ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
)
END_IDS = "edgedraft.tokenizer.end_ids"

# GGUF's tensor names of a layer
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHERS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def config_of(metadata: Dict[str, Any], tied: bool) -> LlamaConfig:
    """Raises KeyError with the missing key."""
    if metadata.get("general.architecture") != "llama":
        raise ValueError(
            f"its architecture is '{metadata.get('general.architecture')}'; expected 'llama'"
        )
    scaling = metadata.get(
        "llama.rope.scaling.type", "linear"
    )  # without a type a factor means linear, as in old files
    if scaling not in ("none", "linear"):
        raise ValueError(f"its RoPE scaling is '{scaling}'; expected none or linear")
    factor = (
        metadata.get("llama.rope.scaling.factor", metadata.get("llama.rope.scale_linear", 1.0))
        if scaling == "linear"
        else 1.0
    )
    heads, width = (metadata["llama.attention.head_count"], metadata["llama.embedding_length"])
    head_dim = metadata.get("llama.attention.key_length", width // heads)
    if metadata.get("llama.rope.dimension_count", head_dim) != head_dim:
        raise ValueError("it rotates only a part of each head, which is not supported")
    return LlamaConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=width,
        num_hidden_layers=metadata["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=metadata.get("llama.attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate_size=metadata["llama.feed_forward_length"],
        rms_norm_eps=round(metadata["llama.attention.layer_norm_rms_epsilon"], 12),
        rope_theta=metadata.get("llama.rope.freq_base", 10000.0),
        rope_scaling={"rope_type": "linear", "factor": factor} if factor != 1.0 else None,
        tie_word_embeddings=tied,
        max_position_embeddings=metadata["llama.context_length"],
    )


def in_halves(matrix: numpy.ndarray, heads: int) -> numpy.ndarray:
    """Reorders rows of q or k for Hugging Face. GGUF's Llamas rotate rows 2i and 2i + 1 of a head; Hugging Face
    rotates i and i + D/2."""
    rows, width = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def renamed(tensors: Dict[str, numpy.ndarray], config: LlamaConfig) -> Dict[str, torch.Tensor]:
    """All tensors of the configuration by Hugging Face's names.  Raises ValueError for a missing or unexpected one."""
    names = {
        name: new
        for name, new in OTHERS.items()
        if name != "output.weight" or not config.tie_word_embeddings
    }
    for layer in range(config.num_hidden_layers):
        names.update(
            {
                f"blk.{layer}.{part}.weight": f"model.layers.{layer}.{new}.weight"
                for part, new in LAYER.items()
            }
        )
    for name in names:
        if name not in tensors:
            raise ValueError(f"the tensor {name} is missing")
    result = {}
    for name, values in tensors.items():
        if name not in names:
            raise ValueError(f"it has the unknown tensor {name}")
        part = name.split(".")[-2]
        if part in ("attn_q", "attn_k"):
            values = in_halves(
                values,
                config.num_attention_heads if part == "attn_q" else config.num_key_value_heads,
            )
        result[names[name]] = torch.from_numpy(numpy.ascontiguousarray(values))
    return result


# ------------------------------------------------------------------------------------------------ tokenizer.model


def varint(number: int) -> bytes:
    number %= 1 << 64
    out = bytearray()
    while number > 127:
        out.append(number % 128 + 128)
        number //= 128
    return bytes(out + bytes([number]))


def field(number: int, content) -> bytes:
    """A field of a protocol buffer: an int, a float, or bytes of a string or message."""
    if isinstance(content, float):
        return varint(8 * number + 5) + struct.pack("<f", content)
    if isinstance(content, int):
        return varint(8 * number) + varint(content)
    return varint(8 * number + 2) + varint(len(content)) + content


def sentencepiece_model(metadata: Dict[str, Any]) -> bytes:
    """The tokenizer of the metadata as SentencePiece's ModelProto."""
    if metadata.get("tokenizer.ggml.model") != "llama":
        raise ValueError(
            f"its tokenizer is '{metadata.get('tokenizer.ggml.model')}'; expected SentencePiece's 'llama'"
        )
    if metadata.get(SPACE_RULE) == "always":
        raise ValueError(f"{SPACE_RULE} is 'always', which a tokenizer.model cannot express")
    pieces = zip(
        metadata["tokenizer.ggml.tokens"],
        metadata["tokenizer.ggml.scores"],
        metadata["tokenizer.ggml.token_type"],
    )
    listed = b"".join(
        field(1, field(1, text.encode()) + field(2, float(score)) + field(3, kind))
        for text, score, kind in pieces
    )
    special = {
        40: metadata.get("tokenizer.ggml.unknown_token_id", 0),
        41: metadata.get("tokenizer.ggml.bos_token_id", 1),
        42: metadata.get("tokenizer.ggml.eos_token_id", 2),
        43: -1,
    }  # no padding
    trainer = (
        field(3, 2)
        + field(4, len(metadata["tokenizer.ggml.tokens"]))
        + field(35, 6 in metadata["tokenizer.ggml.token_type"])
    )
    trainer += b"".join(field(number, value) for number, value in special.items())
    normalizer = (
        field(1, b"identity")
        + field(3, metadata.get("tokenizer.ggml.add_space_prefix", True))
        + field(4, metadata.get("tokenizer.ggml.remove_extra_whitespaces", False))
        + field(5, True)
    )
    return listed + field(2, trainer) + field(3, normalizer)


def tokenizer_config(metadata: Dict[str, Any]) -> dict:
    pieces = metadata["tokenizer.ggml.tokens"]
    config = {
        "tokenizer_class": "LlamaTokenizer",
        "add_bos_token": metadata.get("tokenizer.ggml.add_bos_token", True),
        "add_prefix_space": metadata.get("tokenizer.ggml.add_space_prefix", True),
        "legacy": metadata.get(SPACE_RULE) != "first",
        "clean_up_tokenization_spaces": False,
    }
    for key, name in (("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown")):
        if f"tokenizer.ggml.{name}_token_id" in metadata:
            config[key] = pieces[metadata[f"tokenizer.ggml.{name}_token_id"]]
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"]
    return config


def end_ids(metadata: Dict[str, Any]) -> List[int]:
    """Ids that end an answer, the tokenizer's own end first, as edgedraft convert finds them in a folder."""
    single = [metadata[key] for key in END_KEYS if key in metadata]
    return list(dict.fromkeys(single + metadata.get(END_IDS, []))) or [2]


def unpack(path: str, folder: str) -> LlamaConfig:
    """Writes the folder.  Raises ValueError if a file cannot be read."""
    with open(path, "rb") as file:
        metadata, tensors = read_gguf(file.read())
    if metadata.get("split.count", 1) > 1:
        raise ValueError(
            f"it is one of {metadata['split.count']} parts of a model; give a file with the whole model"
        )
    try:
        config = config_of(metadata, "output.weight" not in tensors)
        weights, tokenizer = renamed(tensors, config), sentencepiece_model(metadata)
    except KeyError as error:
        raise ValueError(f"its metadata lack {error}") from None
    values = llama_config_json(config)
    ends = end_ids(metadata)
    values.update(
        {
            "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id", 1),
            "eos_token_id": ends if len(ends) > 1 else ends[0],
        }
    )
    write_folder(folder, values, weights)
    with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
        file.write(tokenizer)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer_config(metadata), file, indent=2)
        file.write("\n")
    return config


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", metavar="FILE.gguf", required=True)
    parser.add_argument("--out", metavar="FOLDER", required=True)
    options = parser.parse_args()
    try:
        config = unpack(options.model, options.out)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {options.model}: {error}")
    print(
        f"{options.out}: {config.num_hidden_layers} layers of width {config.hidden_size}, {config.vocab_size} pieces"
    )


if __name__ == "__main__":
    main()
