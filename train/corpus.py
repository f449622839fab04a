#!/usr/bin/env python3
"""Writes answers of the training mixture as plain text, one after another, without held-out prompts.

For `edgedraft convert --draft-vocab N --corpus FILE`, which keeps the tokens of such a text.
"""

import argparse
import random

from arguments import out_file
from data import Source


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
    add("--count", type=int, default=20_000, help="number of answers (default 20000)")
    add("--seed", type=int, default=1)
    options = parser.parse_args()
    source, rng = Source(options.data), random.Random(options.seed)
    with open(options.out, "w", encoding="utf-8") as file:
        for _ in range(options.count):
            file.write(source.mixed(rng).answer + "\n")


if __name__ == "__main__":
    main()
