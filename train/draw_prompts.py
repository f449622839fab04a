#!/usr/bin/env python3
"""Prompts of the demo's tasks, as JSON lines for answer_prompts.py: task, prompt.  Without held-out prompts (split.py)
and duplicates.

Tasks have the shares of the training mixture (data.py), modified by --more.  A task without new prompts gives fewer.

Example, with twice as many stories:
    python3 draw_prompts.py --data DIR --count 16000 --more story=2 --out prompts.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from typing import Dict, Iterator

from arguments import out_file
from data import Source
from tasks import Example

TRIES = 20  # consecutive known draws after which a task is exhausted


def distinct(
    source: Source, rng: random.Random, shares: Dict[str, float], count: int
) -> Iterator[Example]:
    """Training prompts, ``count`` draws with these shares of tasks, without duplicates."""
    known = set()
    for task in rng.choices(list(shares), list(shares.values()), k=count):
        for _ in range(TRIES):
            example = source.example(task, rng)
            if example.prompt not in known:
                known.add(example.prompt)
                yield example
                break


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--data",
        metavar="DIR",
        help="folder of the text data sets (listed in data.py); without it only generated tasks",
    )
    add("--out", type=out_file, metavar="FILE", required=True)
    add("--count", type=int, default=16_000, help="maximum prompts (default 16000)")
    add(
        "--more",
        metavar="TASK=FACTOR",
        nargs="+",
        default=[],
        help="multiply the shares of these tasks",
    )
    add("--seed", type=int, default=1)
    options = parser.parse_args()
    source = Source(options.data)
    shares = dict(source.mixture)
    for text in options.more:
        task, _, factor = text.partition("=")
        try:
            shares[task] *= float(factor)
        except (KeyError, ValueError):
            sys.exit(
                f"error: --more {text}: expected TASK=FACTOR with a task of {', '.join(shares)}"
            )
    count = 0
    with open(options.out, "w", encoding="utf-8") as file:
        for example in distinct(source, random.Random(options.seed), shares, options.count):
            file.write(
                json.dumps({"task": example.task, "prompt": example.prompt}, ensure_ascii=False)
                + "\n"
            )
            count += 1
    print(f"{options.out}: {count} prompts; {source.describe()}")


if __name__ == "__main__":
    main()
