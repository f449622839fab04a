"""What the training programs need of a kind of drafter."""

from __future__ import annotations

import abc
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from model import Llama, Trace


class Kind(abc.ABC):
    """A kind of drafter.  Drafters are modules; what they share with the target is the target's, frozen."""

    forms: Tuple[str, ...]  # of names, as an error lists them
    described: Tuple[Tuple[str, str], ...]  # (names, what they stand for)
    default_name: str

    @abc.abstractmethod
    def matches(self, name: str) -> bool:
        """Whether a drafter of that name is of this kind."""

    @abc.abstractmethod
    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        """A new drafter with at most ``limit`` trainable parameters; None if it does not fit."""

    @abc.abstractmethod
    def restore(self, target: Llama, config: dict) -> nn.Module:
        """A drafter of that configuration (``dataclasses.asdict`` of its ``config``), weights to be loaded."""

    def trainable(self, drafter: nn.Module) -> List[Tuple[str, Tensor]]:
        return list(drafter.named_parameters())

    @abc.abstractmethod
    def training_forward(self, drafter: nn.Module, target: Llama, tokens: Tensor, trace: Trace, response: Tensor, period: Tensor,
                         staircase: Tensor) -> Tuple[Tensor, Optional[Tuple[Tensor, Tensor]]]:
        """(feature [B, T, E], pair) for every position of tokens [B, T], each seeing what it would see while drafting.

        feature is what the LM head is fed.  pair, if there is one, are a second output of the drafter and what the
        target has in its place; its distance takes half of the feature term.  response [B, T] marks the
        answers' tokens, period [B] is how many tokens the target is asked after, staircase [B] see --staircase.
        """

    @abc.abstractmethod
    def draft_chain(self, drafter: nn.Module, target: Llama, trace: Trace, sequence: List[int], verified: int, depth: int) -> List[int]:
        """Greedy guesses behind the root ``sequence[verified]``; ``trace`` is the target's of the whole sequence."""

    @abc.abstractmethod
    def write(self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None) -> None:
        """Writes the drafter as a Hugging Face folder."""
