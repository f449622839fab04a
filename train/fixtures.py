#!/usr/bin/env python3
"""Writes small random models with their exact outputs, for testing the C++ runtime.

Every folder under --out holds a model folder (config.json, model.safetensors in F32) and
expected.safetensors.  All expected values come from the plain equations, each tree node from its own root path: no
cache, no tree mask.  Files depend only on the seed and the PyTorch version.

Decoder fixtures, expected.safetensors:
    tokens [T] int32, logits [T, V]            a causal run
    tree.prefix [n], tree.tokens [m], tree.parents [m] int32 (-1: child of the last prefix token)
    tree.logits [m, V]                         after each node
MoA fixtures (moa/target, moa/moa-tli0, -tli1, and -tli3 with fewer query heads than the target), expected.safetensors of a drafter folder:
    m [P, 2 * E_kv], c [P, E]                  LSA mean and memory of every position of the last round
    round<r>.tokens [n + 1] int32              n verified tokens, then the root
    round<r>.nodes [k], round<r>.parents [k] int32 (-1: child of the root)
    round<r>.root_logits [V], round<r>.logits [k, V]
EAGLE fixtures (eagle/eagle, and eagle/eagle-bias with a bias of fc and fewer heads; the target is moa/target):
    round<r>.*                                 as in MoA
    feature [n, E]                             the target's after the final norm, of the last round
MEDUSA fixtures (medusa/medusa-1 with heads of its own, medusa/medusa-2 without; the target is moa/target):
    round<r>.tokens [n + 1] int32, round<r>.head_logits [K, V]   after the feature of token n - 1
Fixtures of Speculative Streaming (multistream/multistream-2; the target is moa/target; scaled/multistream-2):
    round<r>.tokens [n + 1] int32, round<r>.stream_logits [G, V]   of the streams of token n - 1
DFlash fixtures (dflash/dflash; the target is moa/target; scaled/dflash):
    round<r>.tokens [n + 1] int32, round<r>.mask_logits [S - 1, V]   of the block that begins with the root
Fixtures of a target with scaled RoPE and biases (scaled/target): scaled/moa-tli1 as MoA's, scaled/eagle as EAGLE's.
A round's verified tokens are those of the previous round, its root, and the accepted nodes of its tree (ACCEPTED).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from typing import Callable, Dict, Iterator, List, Tuple

import torch
from torch import Tensor

from checkpoint import llama_config_json, write_folder, write_safetensors
from model import Llama, LlamaConfig, Trace, causal_mask
from drafters import eagle
from drafters.dflash import Dflash, DflashConfig, dflash_config_json
from drafters.eagle import Eagle, EagleConfig, eagle_config_json
from drafters.medusa import Medusa, MedusaConfig, medusa_config_json
from drafters.moa import Moa, MoaConfig, MoaState, moa_config_json
from drafters.multistream import Multistream, MultistreamConfig, multistream_config_json

VOCABULARY, WIDTH = 96, 32
BASE = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=WIDTH,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=8,
    intermediate_size=48,
    max_position_embeddings=256,
)
DECODERS: Dict[str, LlamaConfig] = {
    "mha-tied": BASE,
    "gqa-untied": dataclasses.replace(
        BASE, num_key_value_heads=2, tie_word_embeddings=False, intermediate_size=80
    ),
    "head-dim": dataclasses.replace(
        BASE, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, rms_norm_eps=1e-6
    ),
    "llama3-rope": dataclasses.replace(
        BASE,
        num_key_value_heads=1,
        rope_theta=500.0,
        rope_scaling={
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "linear-rope": dataclasses.replace(
        BASE, num_key_value_heads=2, rope_scaling={"rope_type": "linear", "factor": 2.5}
    ),
    "qwen2-bias": dataclasses.replace(
        BASE, num_key_value_heads=2, attention_bias=True, rope_theta=1000000.0, rms_norm_eps=1e-6
    ),
    "qwen2-untied": dataclasses.replace(
        BASE, num_key_value_heads=1, head_dim=16, attention_bias=True, tie_word_embeddings=False
    ),
}
TREE_PARENTS = [-1, -1, -1, 0, 0, 1, 3, 3, 5, 6, 8, 8]  # three children of the root, five levels
# Per round, the last accepted node of the previous tree, with the path to it; -1: none. The first round has no previous
# tree.
ACCEPTED = [-1, -1, 4, -1, 8]
MEDUSA_CHOICES = [
    [0],
    [0, 0],
    [1],
    [0, 1],
    [1, 0],
    [0, 0, 0],
    [2],
    [1, 0, 0],
]  # ranks of the guesses on a node's path, best first


def randomise(module: torch.nn.Module, generator: torch.Generator) -> None:
    """Weights large enough that every part moves the logits; norms far from 1, biases far from 0."""
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if "norm" in name:
                parameter.copy_(0.5 + 0.2 * noise)
            elif parameter.dim() == 1:
                parameter.copy_(0.3 * noise)
            elif "embed_tokens" in name:
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(noise * 1.2 * parameter.shape[1] ** -0.5)


def random_tokens(count: int, generator: torch.Generator) -> List[int]:
    return torch.randint(0, VOCABULARY, (count,), generator=generator).tolist()


def path_to(node: int, tokens: List[int], parents: List[int]) -> List[int]:
    """Tokens from the root's child down to ``node``."""
    path: List[int] = []
    while node >= 0:
        path.insert(0, tokens[node])
        node = parents[node]
    return path


def ints(values: List[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def write_decoder(folder: str, config: LlamaConfig, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = Llama(config)
    randomise(model, generator)
    write_folder(folder, llama_config_json(config), model.state_dict())
    tokens, prefix, nodes = (random_tokens(n, generator) for n in (24, 9, len(TREE_PARENTS)))
    by_path = [
        model(torch.tensor([prefix + path_to(i, nodes, TREE_PARENTS)])).logits[0, -1]
        for i in range(len(nodes))
    ]
    write_safetensors(
        os.path.join(folder, "expected.safetensors"),
        {
            "tokens": ints(tokens),
            "logits": model(torch.tensor([tokens])).logits[0],
            "tree.prefix": ints(prefix),
            "tree.tokens": ints(nodes),
            "tree.parents": ints(TREE_PARENTS),
            "tree.logits": torch.stack(by_path),
        },
    )


def make_target(generator: torch.Generator) -> Llama:
    """The target of all drafters in this file."""
    target = Llama(dataclasses.replace(BASE, num_hidden_layers=4, num_key_value_heads=2))
    randomise(target, generator)
    return target


def other_token(nodes: List[int], generator: torch.Generator) -> int:
    """A token that is in no node, so that no node below it is accepted."""
    others = [token for token in range(VOCABULARY) if token not in nodes]
    return others[int(torch.randint(0, len(others), (1,), generator=generator))]


def verified_rounds(generator: torch.Generator) -> Iterator[Tuple[List[int], List[int], List[int]]]:
    """Per round the verified tokens with the root, and the nodes drafted after it with their parents."""
    sequence = random_tokens(13, generator)  # the prompt
    nodes: List[int] = []
    for index, accepted in enumerate(ACCEPTED):
        sequence = (
            sequence + path_to(accepted, nodes, TREE_PARENTS) + [other_token(nodes, generator)]
        )
        nodes = random_tokens(4 + 2 * index, generator)
        yield sequence, nodes, TREE_PARENTS[: len(nodes)]


def tree_rounds(
    target: Llama,
    draft: Callable[[Trace, List[int], List[int]], Tensor],
    generator: torch.Generator,
) -> Tuple[Dict[str, Tensor], Trace]:
    """(expected values of all rounds, the target's trace of the last one's verified tokens).

    ``draft`` gives the logits after a path that begins with the root, from that trace and the verified tokens.
    """
    expected: Dict[str, Tensor] = {}
    for index, (sequence, nodes, parents) in enumerate(verified_rounds(generator)):
        verified, root = sequence[:-1], sequence[-1]
        trace = target(torch.tensor([verified]))
        expected[f"round{index}.tokens"] = ints(sequence)
        expected[f"round{index}.nodes"], expected[f"round{index}.parents"] = ints(nodes), ints(
            parents
        )
        expected[f"round{index}.root_logits"] = draft(trace, verified, [root])
        expected[f"round{index}.logits"] = torch.stack(
            [draft(trace, verified, [root] + path_to(i, nodes, parents)) for i in range(len(nodes))]
        )
    return expected, trace


def write_moa(folder: str, target: Llama, config: MoaConfig, generator: torch.Generator) -> None:
    drafter = Moa(target.config, config)
    randomise(drafter, generator)
    write_folder(folder, moa_config_json(target.config, config), drafter.state_dict())

    def draft(trace: Trace, verified: List[int], path: List[int]) -> Tensor:
        state = MoaState(drafter, target)  # from an empty state, every time
        state.extend(trace)
        return state.draft(verified, path)

    expected, trace = tree_rounds(target, draft, generator)
    expected["m"], expected["c"] = (
        drafter.layer_mean(trace.keys, trace.values)[0],
        drafter.memory(trace)[0],
    )
    write_safetensors(os.path.join(folder, "expected.safetensors"), expected)


def write_moa_set(folder: str, target: Llama, generator: torch.Generator) -> None:
    write_folder(
        os.path.join(folder, "target"), llama_config_json(target.config), target.state_dict()
    )
    for tli in (0, 1, 3):
        config = MoaConfig(
            heads=2 if tli == 3 else 4,
            tli=tli,
            sa_kv_heads=2,
            sa_ffn=40,
            ca_kv_heads=2,
            ca_ffn=56,
            lsa_heads=4,
            lsa_kv_heads=2,
            lsa_head_dim=8,
            lsa_ffn=24,
        )
        write_moa(os.path.join(folder, f"moa-tli{tli}"), target, config, generator)


def write_eagle(
    folder: str, target: Llama, config: EagleConfig, generator: torch.Generator
) -> None:
    drafter = Eagle(target.config, config)
    randomise(drafter, generator)
    write_folder(folder, eagle_config_json(target.config, config), drafter.state_dict())
    expected, trace = tree_rounds(
        target, lambda *given: eagle.draft(drafter, target, *given), generator
    )
    expected["feature"] = trace.feature[0]
    write_safetensors(os.path.join(folder, "expected.safetensors"), expected)


def write_eagle_set(folder: str, target: Llama, generator: torch.Generator) -> None:
    for bias in (False, True):
        heads = 2 if bias else 4
        write_eagle(
            os.path.join(folder, "eagle-bias" if bias else "eagle"),
            target,
            EagleConfig(heads, heads // 2, ffn=40, bias=bias),
            generator,
        )


def write_scaled_set(folder: str, generator: torch.Generator) -> Llama:
    """A small target with RoPE scaling as in Llama 3.1 and biases as in Qwen2, which the other sets lack, and drafters
    for it.  Returns the target."""
    target = Llama(
        dataclasses.replace(
            DECODERS["llama3-rope"],
            num_hidden_layers=2,
            num_key_value_heads=2,
            intermediate_size=16,
            attention_bias=True,
        )
    )
    randomise(target, generator)
    write_folder(
        os.path.join(folder, "target"), llama_config_json(target.config), target.state_dict()
    )
    moa = MoaConfig(
        heads=4,
        tli=1,
        sa_kv_heads=1,
        sa_ffn=8,
        ca_kv_heads=1,
        ca_ffn=8,
        lsa_heads=4,
        lsa_kv_heads=1,
        lsa_head_dim=8,
        lsa_ffn=8,
    )
    write_moa(os.path.join(folder, "moa-tli1"), target, moa, generator)
    write_eagle(
        os.path.join(folder, "eagle"), target, EagleConfig(heads=4, kv_heads=1, ffn=8), generator
    )
    return target


def write_medusa_set(folder: str, target: Llama, generator: torch.Generator) -> None:
    for version in (1, 2):
        config = MedusaConfig(heads=3, own_heads=version == 1)
        drafter = Medusa(target.config, config)
        randomise(drafter, generator)
        name = os.path.join(folder, f"medusa-{version}")
        write_folder(
            name,
            {**medusa_config_json(target.config, config), "medusa_choices": MEDUSA_CHOICES},
            drafter.state_dict(),
        )
        expected: Dict[str, Tensor] = {}
        for index, (sequence, _, _) in enumerate(verified_rounds(generator)):
            feature = target(torch.tensor([sequence[:-1]])).feature[0, -1]
            (expected[f"round{index}.tokens"], expected[f"round{index}.head_logits"]) = ints(
                sequence
            ), drafter.logits(target, feature)
        write_safetensors(os.path.join(name, "expected.safetensors"), expected)


def write_multistream(folder: str, target: Llama, generator: torch.Generator) -> None:
    config = MultistreamConfig(streams=3, layers=2, rank=4)
    drafter = Multistream(target.config, config)
    randomise(drafter, generator)
    write_folder(folder, multistream_config_json(target.config, config), drafter.state_dict())
    expected: Dict[str, Tensor] = {}
    for index, (sequence, _, _) in enumerate(verified_rounds(generator)):
        trace = target(torch.tensor([sequence[:-1]]))
        expected[f"round{index}.tokens"] = ints(sequence)
        expected[f"round{index}.stream_logits"] = target.head(
            drafter.features(target, trace)[0, -1]
        )
    write_safetensors(os.path.join(folder, "expected.safetensors"), expected)


def write_dflash(folder: str, target: Llama, generator: torch.Generator) -> None:
    config = DflashConfig(
        heads=4,
        kv_heads=2,
        ffn=24,
        layers=2,
        states=[1, target.config.num_hidden_layers],
        mask_token=5,
        block=5,
    )
    drafter = Dflash(target.config, config)
    randomise(drafter, generator)
    write_folder(folder, dflash_config_json(target.config, config), drafter.state_dict())
    expected: Dict[str, Tensor] = {}
    for index, (sequence, _, _) in enumerate(verified_rounds(generator)):
        trace = target(torch.tensor([sequence[:-1]]))
        root, position = torch.tensor([sequence[-1:]]), torch.tensor([[len(sequence) - 1]])
        expected[f"round{index}.tokens"] = ints(sequence)
        expected[f"round{index}.mask_logits"] = target.head(
            drafter(target, trace, root, position)[0, 0]
        )
    write_safetensors(os.path.join(folder, "expected.safetensors"), expected)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="output folder, such as tests/data/fixtures"
    )
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        for index, (name, config) in enumerate(DECODERS.items()):
            write_decoder(os.path.join(options.out, name), config, options.seed + index)
        generator = torch.Generator().manual_seed(options.seed + 100)
        target = make_target(generator)
        write_moa_set(os.path.join(options.out, "moa"), target, generator)
        write_eagle_set(
            os.path.join(options.out, "eagle"),
            target,
            torch.Generator().manual_seed(options.seed + 200),
        )
        write_medusa_set(
            os.path.join(options.out, "medusa"),
            target,
            torch.Generator().manual_seed(options.seed + 300),
        )
        scaled = write_scaled_set(
            os.path.join(options.out, "scaled"), torch.Generator().manual_seed(options.seed + 400)
        )
        generator = torch.Generator().manual_seed(options.seed + 500)
        for folder, model in (("multistream", target), ("scaled", scaled)):
            write_multistream(os.path.join(options.out, folder, "multistream-2"), model, generator)
        generator = torch.Generator().manual_seed(options.seed + 600)
        for folder, model in (("dflash", target), ("scaled", scaled)):
            write_dflash(os.path.join(options.out, folder, "dflash"), model, generator)
    total = sum(
        os.path.getsize(os.path.join(root, file))
        for root, _, files in os.walk(options.out)
        for file in files
    )
    print(f"{options.out}: {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
