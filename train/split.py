"""Decides by a hash of the prompt's normal form which prompts are held out.

Training never draws a held-out prompt, nor one that differs from it only in case, a "please" or its final punctuation.
Prompts on which shipped weights were measured (../models/demo/heldout.jsonl) stay held out as well, so that figures of
later weights are comparable.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from typing import FrozenSet

SHIPPED = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "models", "demo", "heldout.jsonl"
)


def normal_form(prompt: str) -> str:
    """The prompt in lower case, without "please", extra spaces and final punctuation."""
    text = re.sub(r"[\s,]*\bplease\b", "", prompt.lower())
    return " ".join(text.split()).strip(" .?!,")


def hashed_out(key: str, one_in: int) -> bool:
    """True for about one in ``one_in`` keys; deterministic."""
    return int.from_bytes(hashlib.md5(key.encode()).digest()[:4], "little") % one_in == 0


@functools.lru_cache(maxsize=1)
def shipped() -> FrozenSet[str]:
    """Normal forms of the prompts that the shipped weights were measured on."""
    with open(SHIPPED, encoding="utf-8") as file:
        return frozenset(normal_form(json.loads(line)["prompt"]) for line in file if line.strip())


class Split:
    """The rule of the module's docstring.  Per task, one in ``PROMPTS[task]`` prompts is held out."""

    PROMPTS = {"e2e": 20, "story": 20}
    OTHERS = 50
    STORIES = 30  # one in 30 story texts; only held-out prompts ask for one of them

    def story_text(self, text: str) -> bool:
        return hashed_out(text[:80].lower(), self.STORIES)

    def prompt(self, task: str, prompt: str) -> bool:
        form = normal_form(prompt)
        return form in shipped() or hashed_out(form, self.PROMPTS.get(task, self.OTHERS))

    def admits(self, task: str, prompt: str, held_out: bool) -> bool:
        """True if the prompt may be drawn for training, or for the held-out set if ``held_out``."""
        return self.prompt(task, prompt) == held_out


class ShippedSplit(Split):
    """The rule with which the shipped weights were trained; kept to rate their held-out figures.

    It hashes a prompt as drawn, so a command can be held out in lower case and trained on with a capital. It splits
    stories only by their text, so that both sides can request them by the same keywords.
    """

    def prompt(self, task: str, prompt: str) -> bool:
        prefix = "Describe the restaurant: "
        return hashed_out(prompt[len(prefix) :], 20) if task == "e2e" else hashed_out(prompt, 50)

    def admits(self, task: str, prompt: str, held_out: bool) -> bool:
        return task == "story" or self.prompt(task, prompt) == held_out
