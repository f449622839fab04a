"""Interface of a kind of drafter for the training programs."""

from __future__ import annotations

import abc
import dataclasses
from typing import Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn

from model import Llama, Trace


@dataclasses.dataclass
class Guess:
    """One guess of a drafter at every position of tokens [B, T]; the loss compares it with the target there."""

    feature: Tensor  # [B, T, E]: input of the head
    compared: List[
        Tuple[Tensor, Tensor]
    ]  # pairs (made, the target's) of [B, T, E]; their mean distance is the feature term
    head: Optional[nn.Module] = None  # None: the target's LM head
    weight: float = 1.0  # in the drafter's loss
    top_k: int = (
        0  # number of the target's likeliest tokens in a separate loss term; 0: no such term
    )


def mlp_width(most: int) -> int:
    """The largest MLP width up to ``most``.  Large widths are multiples of 32, the block size of
    quantised types; others are multiples of 4."""
    return most // 32 * 32 if most >= 1024 else most // 4 * 4


def head_counts(heads: int) -> Iterator[int]:
    """Numbers of query heads to try for a target with ``heads``: all, then repeatedly half as many if that is too
    large."""
    yield heads
    while heads % 2 == 0:
        heads //= 2
        yield heads


class Kind(abc.ABC):
    """A kind of drafter.  Drafters are modules; parts shared with the target are the target's, frozen."""

    forms: Tuple[str, ...]  # patterns of the names, for error messages
    described: Tuple[Tuple[str, str], ...]  # (names, meaning)
    default_name: str
    loss_weights: Tuple[float, float] = (
        1.0,
        0.1,
    )  # weights of the KL and the feature term; 0: no such term
    # Layout of published weights, for unpack_checkpoint.py; empty for an ordinary model's layout.
    published_file: str = ""  # its name without .pt or .safetensors
    published_prefix: str = ""  # prefix of the tensors' names inside a whole model
    tunes_target: bool = False  # tune_medusa.py can tune a target together with it

    @abc.abstractmethod
    def matches(self, name: str) -> bool:
        """Whether a drafter of that name is of this kind."""

    @abc.abstractmethod
    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        """A new drafter with at most ``limit`` trainable parameters; None if no MLP width fits.

        Raises ValueError if the target can have no drafter of that name at any limit.
        """

    @abc.abstractmethod
    def restore(self, target: Llama, config: dict) -> nn.Module:
        """A drafter of that configuration (``dataclasses.asdict`` of its ``config``), whose weights are loaded later.

        Raises ValueError for another target's drafter, unless loading its weights would fail by shape.
        """

    def trainable(self, drafter: nn.Module) -> List[Tuple[str, Tensor]]:
        return list(drafter.named_parameters())

    def reads(self, drafter: nn.Module) -> List[Tuple[str, int]]:
        """The entries (list, layer) of a Trace that training_forward reads, besides the feature."""
        return []

    @abc.abstractmethod
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
        """The drafter's guesses for every position of tokens [B, T], each seeing only what it would see while drafting.

        Checks report the first guess. response [B, T] marks the answers' tokens, and period [B] counts tokens between
        passes of the target. For staircase [B] see --staircase.
        """

    @abc.abstractmethod
    def draft_chain(
        self,
        drafter: nn.Module,
        target: Llama,
        trace: Trace,
        sequence: List[int],
        verified: int,
        depth: int,
    ) -> List[int]:
        """At most ``depth`` greedy guesses after the root ``sequence[verified]``; ``trace`` is the target's trace
        of the whole sequence."""

    @abc.abstractmethod
    def write(
        self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None
    ) -> None:
        """Writes the drafter as a Hugging Face folder."""
