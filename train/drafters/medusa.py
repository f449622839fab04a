"""MEDUSA: heads on the target's last feature that guess several tokens ahead, each without the others' guesses.

Source: "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads" (Cai et al., 2024).  Head k
reads feature i, after the final norm, and guesses token i + k + 1 (the LM head guesses i + 1). It computes h +
silu(W1 h + b), followed by its own head W2 (version 1) or the target's LM head (version 2).  W1 and b are 0 and W2
the LM head at first.

calibrate.py finds the tree of guesses to draft and writes it into the folder's config.json.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Dict, List, Optional

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from checkpoint import read_safetensors, write_folder
from drafters.kind import Guess, Kind
from model import Llama, LlamaConfig, Trace

HEADS = 5  # as in the published models
DISCOUNT = 0.8  # weight of a head's loss relative to the previous head's
TREE_KEYS = (
    "medusa_choices",
    "medusa_predicted_tau",
)  # keys in config.json, written by calibrate.py


@dataclasses.dataclass
class MedusaConfig:
    heads: int = HEADS
    own_heads: bool = False  # version 1


class ResidualBlock(nn.Module):
    """x + silu(W x + b)"""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.silu(self.linear(x))


class Medusa(nn.ModuleList):
    """The heads; ``state_dict()`` has the published names: 0.0.linear.weight, 0.0.linear.bias and, in version 1, 0.1.weight."""

    def __init__(self, target: LlamaConfig, config: MedusaConfig):
        def head() -> nn.ModuleList:
            own = (
                [nn.Linear(target.hidden_size, target.vocab_size, bias=False)]
                if config.own_heads
                else []
            )
            return nn.ModuleList([ResidualBlock(target.hidden_size)] + own)

        super().__init__(head() for _ in range(config.heads))
        self.target_config, self.config = target, config

    def logits(self, target: Llama, feature: Tensor) -> Tensor:
        """[..., K, V]: each head's logits after a feature [..., E]."""
        return torch.stack(
            [
                (head[1] if self.config.own_heads else target.head)(head[0](feature))
                for head in self
            ],
            dim=-2,
        )


def medusa_config_json(target: LlamaConfig, config: MedusaConfig) -> dict:
    return {
        "architectures": ["MedusaForCausalLM"],
        "model_type": "medusa",
        "torch_dtype": "float32",
        "version": 1 if config.own_heads else 2,
        "medusa_num_heads": config.heads,
        "medusa_num_layers": 1,
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
    }


def tree_of(folder: str, weights: Dict[str, Tensor]) -> dict:
    """The tree that calibrate.py wrote into the folder's config.json; if it was for other weights, a notice instead."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        stored = read_safetensors(os.path.join(folder, "model.safetensors"))
    except (OSError, ValueError, KeyError):  # the folder does not exist yet
        return {}
    tree = {key: config[key] for key in TREE_KEYS if key in config}
    if stored.keys() == weights.keys() and all(
        torch.equal(stored[name].float(), weights[name].cpu().float()) for name in weights
    ):
        return tree
    if tree:
        print(f"{folder} gets other heads; run calibrate.py again for its tree")
    return {}


class MedusaKind(Kind):
    forms = ("medusa", "medusa-1")
    described = (
        ("medusa", f"MEDUSA: {HEADS} heads that share the target's LM head (version 2)"),
        ("medusa-1", "MEDUSA with separate LM heads (version 1), as many as fit"),
    )
    default_name = "medusa"
    tunes_target = True
    loss_weights = (1.0, 0.0)
    published_file = "medusa_lm_head"
    published_prefix = "medusa_head."

    def matches(self, name: str) -> bool:
        return name in self.forms

    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        t, own_heads = target.config, name == "medusa-1"
        size = (t.hidden_size + 1) * t.hidden_size + (
            t.hidden_size * t.vocab_size if own_heads else 0
        )
        heads = min(HEADS, limit // size)
        if heads < 1:
            return None
        drafter = Medusa(t, MedusaConfig(heads, own_heads))
        for head in drafter if own_heads else []:
            head[1].weight.data.copy_(target.head_weight)
        return drafter

    def restore(self, target: Llama, config: dict) -> nn.Module:
        return Medusa(target.config, MedusaConfig(**config))

    def training_forward(
        self,
        drafter: nn.Module,
        target: Llama,
        tokens: Tensor,
        trace: Trace,
        response: Tensor,
        period: Tensor,
        staircase: Tensor,
    ) -> List[Guess]:
        """Head k reads the feature k positions before the token whose successor it guesses; positions before that see
        zeros."""
        width = tokens.shape[1]
        return [
            Guess(
                F.pad(head[0](trace.feature), (0, 0, k, 0))[:, :width],
                [],
                head[1] if drafter.config.own_heads else None,
                DISCOUNT**k,
            )
            for k, head in enumerate(drafter, 1)
        ]

    def draft_chain(
        self,
        drafter: nn.Module,
        target: Llama,
        trace: Trace,
        sequence: List[int],
        verified: int,
        depth: int,
    ) -> List[int]:
        return drafter.logits(target, trace.feature[0, verified - 1])[:depth].argmax(-1).tolist()

    def write(
        self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None
    ) -> None:
        weights = drafter.state_dict()
        tree = tree_of(
            folder,
            {
                name: tensor if dtype is None else tensor.to(dtype)
                for name, tensor in weights.items()
            },
        )
        write_folder(
            folder,
            {**medusa_config_json(drafter.target_config, drafter.config), **tree},
            weights,
            tokenizer,
            dtype,
        )
