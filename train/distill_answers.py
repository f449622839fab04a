#!/usr/bin/env python3
"""Trains drafters for the target of a Hugging Face folder, on answers that it wrote itself.

What distill.py does for the target of train_target.py: the same drafters, loss and checkpoint.  The conversations come
as token ids, so no tokenizer is needed.  One in 40 is held out for the checks, the same ones each time.

Example:
    python3 distill_answers.py --target MiniMind2-Small --answers answers.jsonl --drafters independent --out drafters.pt --minutes 20
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Dict, List, Tuple

import parallel

if __name__ == "__main__":
    parallel.environment()  # before PyTorch is imported

import distill
import loop
from checkpoint import load_target
from data import Row
from drafters import described
from tasks import pick

HELD_OUT_ONE_IN = 40


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog="drafters:\n" + described(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", metavar="FOLDER", required=True, help="Hugging Face folder of a Llama or Qwen2")
    add("--answers", metavar="FILE", required=True, help="JSON lines of answer_prompts.py")
    add("--shortest", type=int, default=2, help="answers of fewer token ids are left out (default 2)")
    distill.add_options(parser)
    options = parser.parse_args()
    loop.check_options(options)
    return options


def read_answers(path: str, longest: int, shortest: int = 2) -> Tuple[List[Row], Dict[str, List[Row]]]:
    """(rows to train on, held-out rows by task).

    Conversations of more than ``longest`` ids are left out, and those whose answer has fewer than ``shortest``.
    """
    training: List[Row] = []
    held: Dict[str, List[Row]] = {}
    with open(path, encoding="utf-8") as file:
        for index, entry in enumerate(map(json.loads, file)):
            prompt, answer = entry["prompt"], entry["answer"]
            if len(prompt) + len(answer) > longest or len(answer) < shortest:
                continue
            row = Row(prompt + answer, [False] * len(prompt) + [True] * len(answer))
            (held.setdefault(entry["task"], []) if index % HELD_OUT_ONE_IN == 0 else training).append(row)
    if not training or not held:
        sys.exit(f"error: {path} has too few answers")
    return training, held


def main() -> None:
    options = parse()
    target = load_target(options.target)
    training, held = read_answers(options.answers, options.longest, options.shortest)
    distill.distill(options, target, lambda rng: pick(rng, training), list(held.values()),
                    f"{len(training)}+{sum(map(len, held.values()))} answers (training+held out)")


if __name__ == "__main__":
    main()
