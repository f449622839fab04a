"""Which prompts are held out: decided by a hash of the prompt's normal form, and held by every draw.

Training never draws a held-out prompt, nor one that differs from it only in case, a "please" or the marks at its end.
Prompts on which shipped weights were measured stay held out as well, so that the figures of later weights
are comparable: those of ../models/demo/heldout.jsonl.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from typing import FrozenSet

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "demo", "heldout.jsonl")


def normal_form(prompt: str) -> str:
    """The prompt in lower case, without "please", extra space and the marks at its end."""
    text = re.sub(r"[\s,]*\bplease\b", "", prompt.lower())
    return " ".join(text.split()).strip(" .?!,")


def hashed_out(key: str, one_in: int) -> bool:
    """True for about one in ``one_in`` keys, always the same ones."""
    return int.from_bytes(hashlib.md5(key.encode()).digest()[:4], "little") % one_in == 0


@functools.lru_cache(maxsize=1)
def shipped() -> FrozenSet[str]:
    """Normal forms of the prompts that the shipped weights were measured on."""
    with open(SHIPPED, encoding="utf-8") as file:
        return frozenset(normal_form(json.loads(line)["prompt"]) for line in file if line.strip())


class Split:
    """The rule of the docstring.  ``PROMPTS`` tells how many prompts of a task give one that is held out."""

    PROMPTS = {"e2e": 20, "story": 20}
    OTHERS = 50
    STORIES = 30  # texts; a held-out story is asked for by held-out prompts alone

    def story_text(self, text: str) -> bool:
        return hashed_out(text[:80].lower(), self.STORIES)

    def prompt(self, task: str, prompt: str) -> bool:
        form = normal_form(prompt)
        return form in shipped() or hashed_out(form, self.PROMPTS.get(task, self.OTHERS))

    def admits(self, task: str, prompt: str, held_out: bool) -> bool:
        """Whether a draw of that side may bring the prompt."""
        return self.prompt(task, prompt) == held_out


class ShippedSplit(Split):
    """The rule by which the shipped weights were trained; kept to say what their held-out figures are worth.

    It hashed a prompt as it was drawn, so a command could be held out in lower case and trained on with a capital,
    and it split stories by their text alone, so that both sides could ask for them by the same keywords.
    """

    def prompt(self, task: str, prompt: str) -> bool:
        prefix = "Describe the restaurant: "
        return hashed_out(prompt[len(prefix):], 20) if task == "e2e" else hashed_out(prompt, 50)

    def admits(self, task: str, prompt: str, held_out: bool) -> bool:
        return task == "story" or self.prompt(task, prompt) == held_out
