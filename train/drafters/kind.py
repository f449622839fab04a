"""What the training programs need of a kind of drafter."""

from __future__ import annotations

import abc
import dataclasses
from typing import Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn

from model import Llama, Trace


@dataclasses.dataclass
class Guess:
    """What a drafter says at every position of tokens [B, T] in one way; the loss compares it with the target there."""

    feature: Tensor  # [B, T, E]: what the head is fed
    compared: List[Tuple[Tensor, Tensor]]  # pairs (made, the target's) of [B, T, E]; their mean distance is the feature term
    head: Optional[nn.Module] = None  # None: the target's LM head
    weight: float = 1.0  # of this guess in the drafter's loss
    top_k: int = 0  # this many of the target's likeliest tokens make a term of their own; 0: no such term


def mlp_width(most: int) -> int:
    """The width of an MLP that may have ``most``: a large one in whole blocks of 32, or quantised types could not store its rows."""
    return most // 32 * 32 if most >= 1024 else most // 4 * 4


def head_counts(heads: int) -> Iterator[int]:
    """Numbers of query heads to try in a drafter of a target that has ``heads``: all, and where that is too large half as many, and so on."""
    yield heads
    while heads % 2 == 0:
        heads //= 2
        yield heads


class Kind(abc.ABC):
    """A kind of drafter.  Drafters are modules; what they share with the target is the target's, frozen."""

    forms: Tuple[str, ...]  # of names, as an error lists them
    described: Tuple[Tuple[str, str], ...]  # (names, what they stand for)
    default_name: str
    loss_weights: Tuple[float, float] = (1.0, 0.1)  # of the KL and the feature term; 0: has no such term
    # How others publish its weights, for unpack_checkpoint.py; empty where they do it as those of any model
    published_file: str = ""  # its name without .pt or .safetensors
    published_prefix: str = ""  # of the tensors' names where they lie among those of a whole model

    @abc.abstractmethod
    def matches(self, name: str) -> bool:
        """Whether a drafter of that name is of this kind."""

    @abc.abstractmethod
    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        """A new drafter with at most ``limit`` trainable parameters; None if it does not fit, whatever its MLPs.

        ValueError tells why a target can have no drafter of that name, whatever the limit.
        """

    @abc.abstractmethod
    def restore(self, target: Llama, config: dict) -> nn.Module:
        """A drafter of that configuration (``dataclasses.asdict`` of its ``config``), weights to be loaded.

        ValueError for one of another target, as far as the shapes of its weights would not tell it.
        """

    def trainable(self, drafter: nn.Module) -> List[Tuple[str, Tensor]]:
        return list(drafter.named_parameters())

    def reads(self, drafter: nn.Module) -> List[Tuple[str, int]]:
        """The entries (list, layer) of a Trace that training_forward looks at, beside the feature."""
        return []

    @abc.abstractmethod
    def training_forward(self, drafter: nn.Module, target: Llama, tokens: Tensor, trace: Trace, response: Tensor, period: Tensor,
                         staircase: Tensor) -> List[Guess]:
        """What the drafter says for every position of tokens [B, T], each seeing what it would see while drafting.

        The first guess is the one that checks tell about.  response [B, T] marks the answers' tokens, period [B] is
        how many tokens the target is asked after, staircase [B] see --staircase.
        """

    @abc.abstractmethod
    def draft_chain(self, drafter: nn.Module, target: Llama, trace: Trace, sequence: List[int], verified: int, depth: int) -> List[int]:
        """At most ``depth`` greedy guesses behind the root ``sequence[verified]``; ``trace`` is the target's of the whole sequence."""

    @abc.abstractmethod
    def write(self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None) -> None:
        """Writes the drafter as a Hugging Face folder."""
