"""A frozen target's traces of the conversations that drafters are trained on."""

from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

import torch
from torch import Tensor
import torch.nn.functional as F

from data import IGNORE
from model import Llama, Trace

LISTS = ("streams", "keys", "values")  # lists of a Trace, besides its feature


class Traces:
    """The target's traces of batches; repeated conversations come from a cache.

    A long training draws an answer many times.  Within ``room`` bytes of cached results the target runs once per
    conversation; without ``room`` it runs every time.
    """

    def __init__(self, target: Llama, entries: Iterable[Tuple[str, int]], room: int = 0):
        """Only ``entries`` (list, layer) of a Trace and its feature are read; with ``room`` others are None."""
        self.target, self.room = target, room
        read = sorted(set(entries))
        self.layers = {field: [layer for name, layer in read if name == field] for field, _ in read}
        # By a conversation's ids: the feature [1, T, E], then for each list the layers read, stacked [n, ..., T,
        # width].
        self.kept: Dict[bytes, List[Tensor]] = {}

    def __call__(self, tokens: Tensor, labels: Tensor) -> Trace:
        """The trace of tokens [B, T] with the labels of data.collate, both on the CPU. Values at padding are
        undefined."""
        device, width = self.target.head_weight.device, tokens.shape[1]
        if self.room == 0 and not self.kept:
            return self.target(tokens.to(device), head=False)
        conversations = [row[:length] for row, length in zip(tokens, lengths(labels))]
        keys = [ids.numpy().tobytes() for ids in conversations]
        known = {i: self.kept[key] for i, key in enumerate(keys) if key in self.kept}
        new = [i for i in range(len(keys)) if i not in known]
        if new:
            trace = self.target(tokens[new].to(device), head=False)
            computed = [trace.feature[None]] + [
                torch.stack([getattr(trace, field)[layer] for layer in layers])
                for field, layers in self.layers.items()
            ]
            for row, i in enumerate(new):
                known[i] = [part[:, row, ..., : len(conversations[i]), :] for part in computed]
                self._keep(keys[i], known[i])
        padded = [
            [F.pad(part, (0, 0, 0, width - part.shape[-2])) for part in known[i]]
            for i in range(len(keys))
        ]
        feature, *lists = (torch.stack(parts, 1) for parts in zip(*padded))
        found = {
            field: dict(zip(layers, stack))
            for (field, layers), stack in zip(self.layers.items(), lists)
        }
        count = self.target.config.num_hidden_layers
        return Trace(
            None,
            feature[0],
            **{
                field: [
                    found.get(field, {}).get(layer) for layer in range(count + (field == "streams"))
                ]
                for field in LISTS
            },
        )

    def _keep(self, key: bytes, parts: List[Tensor]) -> None:
        size = sum(part.numel() * part.element_size() for part in parts)
        if key not in self.kept and size <= self.room:
            self.room -= size
            self.kept[key] = [part.clone() for part in parts]


def lengths(labels: Tensor) -> List[int]:
    """Per row, the number of ids up to the last one to predict; all if there is none."""
    ends = [(row != IGNORE).nonzero().flatten().tolist()[-1:] for row in labels]
    return [end[0] + 2 if end else labels.shape[1] for end in ends]
