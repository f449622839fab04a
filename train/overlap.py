#!/usr/bin/env python3
"""Overlap of training and held-out prompts, one line per task, as a Markdown table.

Verbatim and normal form (split.py): how many held-out prompts training can draw.  Answers: how many have an answer that
also occurs in training, which short templates make unavoidable.  Stories are enumerated: every prompt that their
keywords allow.  Other tasks are drawn --draws times each.

    python3 overlap.py --data DIR                                   # the current training split
    python3 overlap.py --data DIR --split shipped                   # the split of the shipped weights
    python3 overlap.py --data DIR --split shipped --replace FILE    # also writes prompts outside that training
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Dict, List, Set

from data import Source, story_prompts
from split import SHIPPED, ShippedSplit, Split, normal_form


class Training:
    """The prompts and answers that training draws for one task."""

    def __init__(self, source: Source, task: str, draws: int, seed: int):
        self.verbatim: Set[str] = set()
        self.answers: Set[str] = set()
        if task == "story":
            for text, keywords in source.stories[False]:
                self.answers.add(text)
                self.verbatim.update(
                    p for p in story_prompts(keywords) if source.split.admits(task, p, False)
                )
        else:
            rng = random.Random(f"{seed}/{task}")
            for _ in range(draws):
                example = source.example(task, rng)
                self.verbatim.add(example.prompt)
                self.answers.add(example.answer)
        self.forms = {normal_form(prompt) for prompt in self.verbatim}

    def has_verbatim(self, prompt: str) -> bool:
        # story_prompts ends each prompt with a full stop, which drawn prompts may lack.
        return prompt in self.verbatim or prompt + "." in self.verbatim


def replaced(
    entries: List[dict], training: Training, source: Source, task: str, seed: int
) -> List[dict]:
    """The entries; each that training may have drawn is replaced by a held-out draw that training cannot make."""
    forms = {normal_form(entry["prompt"]) for entry in entries}
    rng = random.Random(f"{seed}/{task}")
    result = []
    for entry in entries:
        while normal_form(entry["prompt"]) in training.forms:
            example = source.example(task, rng, True)
            form = normal_form(example.prompt)
            if form in training.forms or form in forms:
                continue
            forms.add(form)
            entry = {"task": task, "prompt": example.prompt, "reference": example.answer}
            if example.references:
                entry["references"] = example.references
        result.append(entry)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", metavar="DIR", help="folder of the text data sets (listed in data.py)")
    add(
        "--prompts",
        metavar="FILE",
        default=SHIPPED,
        help="held-out prompts (default: the shipped ones)",
    )
    add(
        "--split",
        choices=["current", "shipped"],
        default="current",
        help="rule for drawing training examples (default current)",
    )
    add("--draws", type=int, default=500_000, help="training examples per task (default 500000)")
    add("--seed", type=int, default=1)
    add(
        "--replace",
        metavar="FILE",
        help="write the prompts to FILE, replacing those that training can draw",
    )
    options = parser.parse_args()
    with open(options.prompts, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    tasks: Dict[str, List[dict]] = {}
    for entry in entries:
        tasks.setdefault(entry["task"], []).append(entry)
    source = Source(options.data, ShippedSplit() if options.split == "shipped" else Split())
    output: List[dict] = []
    print(
        "| task | held-out prompts | verbatim in training | in normal form | answers in training |\n|---|---|---|---|---|"
    )
    for task, items in tasks.items():
        training = Training(source, task, options.draws, options.seed)
        verbatim = sum(training.has_verbatim(item["prompt"]) for item in items)
        form = sum(normal_form(item["prompt"]) in training.forms for item in items)
        answers = sum(item["reference"] in training.answers for item in items)
        print(f"| {task} | {len(items)} | {verbatim} | {form} | {answers} |", flush=True)
        output += replaced(items, training, source, task, 7) if options.replace else []
    if options.replace:
        with open(options.replace, "w", encoding="utf-8") as file:
            for entry in output:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
