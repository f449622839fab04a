"""Published drafters, each with the model that it is made for."""

import struct

from fuzz_seeds.corpus import write
from fuzz_seeds.models import I64, TOKENIZER, gguf, layer

DIM, HEADS, KV, HEAD_DIM, FFN, VOCABULARY = 4, 2, 1, 2, 6, 8
SIZES = {
    "context_length": 16,
    "embedding_length": DIM,
    "feed_forward_length": FFN,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV,
    "attention.key_length": HEAD_DIM,
    "attention.value_length": HEAD_DIM,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
WINDOWS = {
    "attention.key_length_swa": HEAD_DIM,
    "attention.value_length_swa": HEAD_DIM,
    "attention.sliding_window": 4,
    "attention.sliding_window_pattern": [True, False],
}


def keys(architecture: str, blocks: int, more: dict) -> dict:
    values = {**SIZES, "block_count": blocks, **more}
    return {
        "general.architecture": architecture,
        **{f"{architecture}.{key}": value for key, value in values.items()},
    }


def pair(name: str, target: bytes, drafter: bytes) -> None:
    write("drafter_source", name, struct.pack("<I", len(target)) + target + drafter)


def model(architecture: str, blocks: int, more: dict, tensors: dict) -> bytes:
    base = {"token_embd.weight": [DIM, VOCABULARY], "output_norm.weight": [DIM]}
    return gguf({**keys(architecture, blocks, more), **TOKENIZER}, {**base, **tensors})


def norms(prefix: str) -> dict:
    return {f"{prefix}attn_q_norm.weight": [HEAD_DIM], f"{prefix}attn_k_norm.weight": [HEAD_DIM]}


def gemma_block(prefix: str) -> dict:
    own = {**layer(prefix, DIM, HEADS * HEAD_DIM, KV * HEAD_DIM, FFN), **norms(prefix)}
    for name in ("attn_k", "attn_v", "attn_k_norm"):
        del own[f"{prefix}{name}.weight"]
    for name in ("post_attention_norm", "post_ffw_norm"):
        own[f"{prefix}{name}.weight"] = [DIM]
    return {**own, f"{prefix}layer_output_scale.weight": [1]}


def make_drafter_sources() -> None:
    llama = model("llama", 4, {}, {})
    qwen3 = model("qwen3", 4, {}, {})
    table = {"output.weight": [DIM, 3], "d2t": (I64, [3])}
    states = {"target_layers": [1, 2, 3]}
    fused = {"fc.weight": [3 * DIM, DIM], "output_norm.weight": [DIM]}
    eagle3 = layer("blk.0.", DIM, HEADS * HEAD_DIM, KV * HEAD_DIM, FFN)
    for name in ("attn_q", "attn_k", "attn_v"):
        eagle3[f"blk.0.{name}.weight"][0] = 2 * DIM
    eagle3["blk.0.attn_norm_2.weight"] = [DIM]
    pair("eagle3", llama, gguf(keys("eagle3", 1, states), {**fused, **table, **eagle3}))

    block = {**layer("blk.0.", DIM, HEADS * HEAD_DIM, KV * HEAD_DIM, FFN), **norms("blk.0.")}
    block["enc.output_norm.weight"] = [DIM]
    settings = {
        **states,
        "block_size": 4,
        "attention.causal": True,
        "attention.sliding_window": 4,
        "attention.sliding_window_pattern": [True],
        "embedding_scale": 2.0,
        "logit_scale": 0.5,
        "final_logit_softcapping": 20.0,
    }
    mask = {"tokenizer.ggml.mask_token_id": 7}
    pair(
        "dflash", qwen3, gguf({**keys("dflash", 1, settings), **mask}, {**fused, **table, **block})
    )

    assistant = {
        "token_embd.weight": [DIM, VOCABULARY],
        "output_norm.weight": [DIM],
        "rope_freqs.weight": [HEAD_DIM // 2],
        "nextn.pre_projection.weight": [2 * DIM, DIM],
        "nextn.post_projection.weight": [DIM, DIM],
        **gemma_block("blk.0."),
        **gemma_block("blk.1."),
    }
    gemma4 = model(
        "gemma4",
        2,
        WINDOWS,
        {"rope_freqs.weight": [HEAD_DIM // 2], **norms("blk.0."), **norms("blk.1.")},
    )
    more = {**WINDOWS, "embedding_length_out": DIM, "attention.shared_kv_layers": 2}
    pair("assistant", gemma4, gguf(keys("gemma4-assistant", 2, more), assistant))

    nextn = {
        "blk.1.nextn.eh_proj.weight": [2 * DIM, DIM],
        "blk.1.nextn.enorm.weight": [DIM],
        "blk.1.nextn.hnorm.weight": [DIM],
        "blk.1.post_attention_norm.weight": [DIM],
    }
    mtp = {
        **layer("blk.1.", DIM, 2 * HEADS * HEAD_DIM, KV * HEAD_DIM, FFN),
        "blk.1.attn_output.weight": [HEADS * HEAD_DIM, DIM],
        **norms("blk.1."),
        **nextn,
    }
    del mtp["blk.1.ffn_norm.weight"]
    recurrent = {
        "ssm.conv_kernel": 4,
        "ssm.state_size": 2,
        "ssm.group_count": 1,
        "ssm.time_step_rank": 2,
        "ssm.inner_size": 4,
        "full_attention_interval": 1,
        "nextn_predict_layers": 1,
    }
    pair("mtp", model("qwen35", 2, recurrent, mtp), b"")
