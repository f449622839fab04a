"""An ordinary decoder of a few layers between the target's embedding and its final norm and head."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from checkpoint import write_llama
from drafters.kind import Guess, Kind, head_counts, mlp_width
from model import Cache, Llama, LlamaConfig, Trace, config_from_dict


def between(target: Llama, config: LlamaConfig) -> Llama:
    """A Llama of new layers between the target's embedding and its final norm and head."""
    drafter = Llama(config)
    drafter.model.embed_tokens, drafter.model.norm = target.model.embed_tokens, target.model.norm
    if not config.tie_word_embeddings:
        drafter.lm_head = target.lm_head
    return drafter


class IndependentKind(Kind):
    forms = ("independent", "independent-<LAYERS>")
    described = (("independent, independent-2, ...", "one or N ordinary layers over tokens"),)
    default_name = "independent"
    _name = re.compile(r"independent(?:-([1-9]\d*))?")

    def matches(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        t, layers = target.config, int(self._name.fullmatch(name)[1] or 1)
        if layers > t.num_hidden_layers:
            raise ValueError(
                f"{name} would have more layers than the target, which has {t.num_hidden_layers}"
            )
        for heads in head_counts(t.num_attention_heads):
            kv_heads = math.gcd(heads, t.num_key_value_heads)
            attention = 2 * t.hidden_size * t.head_dim * (heads + kv_heads) + 2 * t.hidden_size
            if t.attention_bias:
                attention += t.head_dim * (heads + 2 * kv_heads)
            ffn = mlp_width((limit // layers - attention) // (3 * t.hidden_size))
            if ffn >= 8:
                return between(
                    target,
                    dataclasses.replace(
                        t,
                        num_hidden_layers=layers,
                        num_attention_heads=heads,
                        num_key_value_heads=kv_heads,
                        intermediate_size=ffn,
                    ),
                )
        return None

    def restore(self, target: Llama, config: dict) -> nn.Module:
        own, t = config_from_dict(config), target.config
        for field in ("hidden_size", "vocab_size", "tie_word_embeddings"):  # taken from the target
            if getattr(own, field) != getattr(t, field):
                raise ValueError(
                    f"{field} is {getattr(own, field)}, the target's is {getattr(t, field)}"
                )
        return between(target, own)

    def trainable(self, drafter: nn.Module) -> List[Tuple[str, Tensor]]:
        return [
            (name, p) for name, p in drafter.named_parameters() if name.startswith("model.layers.")
        ]

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
        feature = drafter(tokens, head=False).feature
        return [Guess(feature, [(feature, trace.feature)])]

    def draft_chain(
        self,
        drafter: nn.Module,
        target: Llama,
        trace: Trace,
        sequence: List[int],
        verified: int,
        depth: int,
    ) -> List[int]:
        path: List[int] = []
        cache = Cache()
        tokens = sequence[: verified + 1]
        for _ in range(depth):
            step = drafter(torch.tensor([tokens]), cache.past)
            cache.append(step)
            tokens = [int(step.logits[0, -1].argmax())]
            path += tokens
        return path

    def write(
        self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None
    ) -> None:
        write_llama(folder, drafter, tokenizer, dtype)
